// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "support/project_files.hpp"

namespace {

std::string const language = "cleave/core/language.hpp";

/// Returns the first header of the library that `text` includes. Returns "" if anything but includes of other
/// libraries comes before it.
std::string first_include(std::string const& text) {
  std::string const own = "#include \"";
  for (auto const& line : project::lines_of(text)) {
    if (line.starts_with(own)) return line.substr(own.size(), line.rfind('"') - own.size());
    if (!line.empty() && !line.starts_with("//") && !line.starts_with("#include <") && line != "#pragma once")
      return "";
  }
  return "";
}

}  // namespace

// A compiler that cannot compile the library then reports only that.
TEST_CASE("language.hpp: every header includes it first, directly or through its first include") {
  std::map<std::string, std::string> first;
  for (auto const& file : project::headers())
    first[file.substr(std::string("include/").size())] =
        first_include(project::text_of(project::root / file));
  REQUIRE(first.contains(language));
  for (auto const& [header, next] : first) {
    std::string at = header;
    for (std::size_t steps = 0; at != language && steps < first.size(); ++steps)
      at = first.contains(at) ? first.at(at) : "";
    CHECK_MESSAGE(at == language, header);
  }
}

TEST_CASE("first_include: returns the first header of the library, or nothing if other code precedes it") {
  CHECK(
      first_include("// A\n#pragma once\n#include <vector>\n\n#include \"cleave/a.hpp\"\n#include \"b\"\n") ==
      "cleave/a.hpp");
  CHECK(first_include("#pragma once\nnamespace cleave {}\n#include \"cleave/a.hpp\"\n") == "");
  CHECK(first_include("#pragma once\n#include <vector>\n") == "");
}
