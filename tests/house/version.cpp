// SPDX-License-Identifier: MIT
#include "cleave/version.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/project_files.hpp"

TEST_CASE("version: the macros agree, and every file that names the version of the project names this one") {
  std::string const version = CLEAVE_VERSION;
  CHECK(version == std::to_string(CLEAVE_VERSION_MAJOR) + "." + std::to_string(CLEAVE_VERSION_MINOR) + "." +
                       std::to_string(CLEAVE_VERSION_PATCH));
  auto const names = [&](char const* file, std::string const& line) {
    CAPTURE(file);
    CHECK(project::text_of(project::root / file).find(line) != std::string::npos);
  };
  names("CITATION.cff", "\nversion: " + version + "\n");
  names("examples/python/pyproject.toml", "\nversion = \"" + version + "\"\n");
  names("examples/python/python/cleave/__init__.py", "\n__version__ = \"" + version + "\"\n");
  names("README.md", "\nVersion " + version.substr(0, version.rfind('.')) + ", ");
  names("CHANGELOG.md", "# Change log\n\n## " + version);
}
