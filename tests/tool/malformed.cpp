// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/tool.hpp"

using cleave::testing::run_tool;

namespace {

std::filesystem::path const folder = std::filesystem::path(CLEAVE_TEST_DATA) / "models/malformed";

/// Runs a subcommand on each file: no signal, no more than a second and 256 MB, and the end that is
/// described.
std::size_t check_all(std::vector<std::string> const& command) {
  std::ifstream in(folder / "malformed.json");
  auto const described = nlohmann::json::parse(in);
  auto const& cases = described.is_array() ? described : described.at("cases");
  for (auto const& c : cases) {
    auto words = command;
    words.push_back((folder / c.at("file").get<std::string>()).string());
    auto const r = run_tool(words);
    CAPTURE(words.back());
    CAPTURE(r.to_stderr);
    CHECK(r.signal == 0);
    CHECK(r.seconds < 1);
    CHECK(r.peak_bytes < 256'000'000);
    auto const expect = c.at("expect").get<std::string>();
    if (expect == "reject") CHECK(r.exit == 3);
    bool const is_small = r.exit == 1 && r.to_stderr.find("; a stage needs a node\n") != std::string::npos;
    bool const accepts = r.exit == 0 || is_small;
    if (expect == "accept") CHECK(accepts);
    if (expect == "either") CHECK((accepts || r.exit == 3));
    if (r.exit != 3 || expect != "reject") continue;
    for (auto const& name : c.at("message_names"))
      CHECK(r.to_stderr.find(name.get<std::string>()) != std::string::npos);
  }
  return cases.size();
}

}  // namespace

TEST_CASE("cleave inspect: accepts or rejects every malformed file as its description says") {
  CHECK(check_all({"inspect"}) == 49);
}

TEST_CASE("cleave split: accepts or rejects every malformed file as its description says") {
  CHECK(check_all({"split", "-k", "2", "--json"}) == 49);
  // One is well formed, but its three nodes pass on a value of unknown type.
  auto const three = run_tool({"split", (folder / "untyped_boundary.onnx").string(), "-k", "3"});
  CHECK(three.exit == 3);
  CHECK(three.to_stderr.find("types are not known: 'b'; at most 2 stages are possible (-k 2)") !=
        std::string::npos);
}
