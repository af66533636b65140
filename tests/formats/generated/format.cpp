// SPDX-License-Identifier: MIT
#include "cleave/formats/generated/format.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <type_traits>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/project_files.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

using namespace cleave::detail;

static_assert(sizeof(stage_format::Token) == 12 && sizeof(stage_format::Node) == 16 &&
              sizeof(stage_format::Attribute) == 20);

TEST_CASE("format: kinds have the same numbers in the schema and in the library") {
  for (std::size_t i = 0; i < node_kind_names.size(); ++i)
    CHECK(EnumNameNodeKind(static_cast<stage_format::NodeKind>(i)) == node_kind_names[i]);
  CHECK(node_kind_names.size() == stage_format::NodeKind_MAX + 1);
  CHECK(node_kind_names[static_cast<std::size_t>(node_kind::output)] == "output");
  for (std::size_t i = 0; i < attribute_kind_names.size();
       ++i)  // flatc writes module_, since module is a C++ keyword
    CHECK(std::string(EnumNameAttributeKind(static_cast<stage_format::AttributeKind>(i))).substr(0, 6) ==
          attribute_kind_names[i].substr(0, 6));
  CHECK(attribute_kind_names.size() == stage_format::AttributeKind_MAX + 1);
  auto const of = [](container::kind k) {
    return std::string(EnumNameTokenKind(
        static_cast<stage_format::TokenKind>(stage_format::TokenKind_list + static_cast<unsigned>(k))));
  };
  CHECK(of(container::kind::list) == "list");
  CHECK(of(container::kind::tuple) == "tuple");
  CHECK(of(container::kind::dict) == "dict");
  CHECK(of(container::kind::slice) == "slice");
}

namespace {

/// Turns the output of flatc into a header of this project: adds the common first lines, removes the include
/// guard, includes flatbuffers in angle brackets, adds core/language.hpp, opens the namespace of the
/// library's version, and drops the check of the flatbuffers version, because 2.0.8 and 25.12.19 both have
/// all that it uses.
std::string header_from(std::string const& generated) {
  std::string text = "// SPDX-License-Identifier: MIT\n#pragma once\n// clang-format off\n// NOLINTBEGIN\n";
  std::istringstream lines(generated);
  bool asks_for_version = false;
  for (std::string line; std::getline(lines, line);) {
    asks_for_version |= line.starts_with("// Ensure the included flatbuffers.h is the same version");
    if (line == "#include \"flatbuffers/flatbuffers.h\"")
      text += "#include <flatbuffers/flatbuffers.h>\n\n#include \"cleave/core/language.hpp\"\n";
    else if (line == "namespace cleave {")
      text += "namespace cleave::inline v0_2 {\n";
    else if (!asks_for_version && line.find("FLATBUFFERS_GENERATED_") == std::string::npos)
      text += line + "\n";
    asks_for_version &= !line.ends_with("included\");");
  }
  return text + "// NOLINTEND\n";
}

}  // namespace

// RECORD=1 in the environment writes the headers.
TEST_CASE("format: each generated header equals the output of flatc 2.0.8") {
  testing::scratch_folder const folder;
  auto const version = folder / "version";
  bool const runs = std::system(("flatc --version > '" + version + "' 2>&1").c_str()) == 0;
  if (!runs || project::text_of(version) != "flatc version 2.0.8\n") {
    MESSAGE("skipped: flatc 2.0.8 is not installed");
    return;
  }
  for (std::string const name : {"format", "checkpoint_format"}) {
    auto const room = name == "format" ? "formats" : "checkpoint";
    auto const stem = (project::root / "include/cleave" / room / "generated" / name).string();
    auto const schema = stem + ".fbs", made = stem + ".hpp";
    REQUIRE(std::system(("flatc --cpp -o '" + folder / "" + "' '" + schema + "'").c_str()) == 0);
    auto const header = header_from(project::text_of(folder / (name + "_generated.h")));
    if (std::getenv("RECORD") != nullptr) std::ofstream(made, std::ios::binary) << header;
    CHECK(project::text_of(made) == header);
  }
}
