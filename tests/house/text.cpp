// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "support/project_files.hpp"

TEST_CASE("headers: begin with the licence and #pragma once, and have at most 800 lines") {
  for (auto const& file : project::headers()) {
    auto const lines = project::lines_of(project::text_of(project::root / file));
    REQUIRE_MESSAGE(lines.size() >= 2, file);
    CHECK_MESSAGE(lines[0] == "// SPDX-License-Identifier: MIT", file);
    CHECK_MESSAGE(lines[1] == "#pragma once", file);
    bool const generated = file.find("/generated/") != std::string::npos;
    if (!generated) CHECK_MESSAGE(lines.size() <= 800, file, " has ", lines.size(), " lines");
  }
}

TEST_CASE("sources: begin with the licence") {
  for (auto const* folder : {"tests", "examples", "bench"})
    for (auto const& file : project::files(folder, {".cpp", ".hpp", ".cu", ".cuh"}))
      if (!file.starts_with("tests/house/diagnostics/"))
        CHECK_MESSAGE(project::text_of(project::root / file).starts_with("// SPDX-License-Identifier: MIT\n"),
                      file);
}

TEST_CASE("headers: define no macros but the version, import no namespaces and do not use std::function") {
  for (auto const& file : project::headers()) {
    auto const text = project::text_of(project::root / file);
    if (file != "include/cleave/version.hpp")
      CHECK_MESSAGE(text.find("#define") == std::string::npos, file, " defines a macro");
    CHECK_MESSAGE(text.find("using namespace") == std::string::npos, file, " imports a namespace");
    CHECK_MESSAGE(text.find("std::function<") == std::string::npos, file, " uses std::function");
  }
}

TEST_CASE("headers: do not sort with std::stable_sort, whose buffer clang 19 calls deprecated") {
  for (auto const& file : project::headers())
    CHECK_MESSAGE(project::text_of(project::root / file).find("stable_sort(") == std::string::npos, file);
}

TEST_CASE("headers: can be included after macros named min, max, near and far") {
  std::regex const ignored("//.*|\"(\\\\.|[^\"\\\\])*\"");
  std::regex const hit("\\b(min|max)\\s*\\(|\\b(near|far)\\b");
  for (auto const& file : project::headers()) {
    std::size_t number = 0;
    for (auto const& line : project::lines_of(project::text_of(project::root / file))) {
      ++number;
      bool const safe = !std::regex_search(std::regex_replace(line, ignored, ""), hit);
      CHECK_MESSAGE(safe, file, ":", number, ": ", line, " (write (std::min)(…), (std::max)(…))");
    }
  }
}

TEST_CASE("files: contain no reminders of open work and no path outside the repository") {
  std::regex const foreign(std::string("\\.\\./sha") + "red|/wo" + "rk/(main|shared)|TO" + "DO|FIX" + "ME");
  for (auto const& file : project::files(".", {})) {
    if (file.ends_with(".onnx") || file.ends_with(".gz") || file.starts_with("tests/conformance/")) continue;
    if (file.starts_with("bench/data/")) continue;
    std::size_t number = 0;
    for (auto const& line : project::lines_of(project::text_of(project::root / file))) {
      ++number;
      if (line.size() < 2000) CHECK_MESSAGE(!std::regex_search(line, foreign), file, ":", number, ": ", line);
    }
  }
}

TEST_CASE("top level: contains only the listed files and folders") {
  std::set<std::string> const folders{"LICENSES", "include", "tests", "examples", "bench", "docs", "build"};
  std::set<std::string> const files{
      "CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json", "README.md",    "REUSE.toml", "LICENSE",
      "CHANGELOG.md",   "CONTRIBUTING.md",   "SECURITY.md",           "CITATION.cff", "dev"};
  for (auto const& entry : std::filesystem::directory_iterator(project::root)) {
    auto const name = entry.path().filename().string();
    if (name.starts_with(".")) continue;
    CHECK_MESSAGE((entry.is_directory() ? folders : files).contains(name), name);
  }
}
