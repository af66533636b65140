// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "conformance_runner/read_case.hpp"
#include "conformance_runner/write_case.hpp"
#include "conformance_runner/write_value.hpp"
#include "support/integer_interpretation.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::conformance;
using tree = cleave::conformance::json;  // not the namespace of cleave

namespace {

std::filesystem::path const recordings = std::filesystem::path(CLEAVE_TEST_DATA) / "conformance";

/// Returns the number of cases of each area according to the table in the folder's README.
std::map<std::string, std::size_t> promised_counts() {
  std::ifstream in(recordings / "README.md");
  std::map<std::string, std::size_t> counts;
  for (std::string line; std::getline(in, line);) {
    auto const bar = line.find(" | ");
    if (!line.starts_with("| ") || bar == line.npos ||
        !std::isdigit(static_cast<unsigned char>(line[bar + 3])))
      continue;
    counts[line.substr(2, bar - 2)] = std::stoul(line.substr(bar + 3));
  }
  return counts;
}

std::string reading_fault(tree const& body, std::string const& area = "split_module") {
  schema const s(layouts);
  try {
    read_case(s, area, "file.json", body, tree::object());
  } catch (cleave::conformance::layout_error const& e) {
    return e.what();
  }
  return "";
}

tree chain() {
  return parse_json(R"({"name": "a case", "input": {"attributes": {}, "assign": {"f": 0}, "graph": {"nodes": [
      {"name": "x", "op": "placeholder", "target": "x"},
      {"name": "f", "op": "call_function", "target": "f", "args": [{"node": "x"}], "kwargs": {"b": 1, "a": 2}},
      {"name": "output", "op": "output", "args": [{"node": "f"}]}]}}})",
                    "chain");
}

}  // namespace

TEST_CASE("read_area: reads every recorded case, and its graphs are written back unchanged") {
  auto const promised = promised_counts();
  REQUIRE(promised.size() == 7);
  std::size_t total = 0;
  for (auto const& [area, count] : promised) {
    auto const cases = read_area(recordings, area);
    CHECK_MESSAGE(cases.size() == count, area);
    total += cases.size();
    for (auto const& c : cases) {
      auto const read = write_graphs(c).dump(), given = given_graphs(c).dump();
      if (read != given) FAIL_CHECK(c.file, ", ", c.name, ": read ", read, "\ngiven ", given);
    }
  }
  CHECK(total == 11076);
}

TEST_CASE("integer_interpretation: gives the recorded value of every graph") {
  std::map<std::string, std::size_t> evaluated;
  for (auto const* area : {"split_module", "split_by_tags", "capability"})
    for (auto const& c : read_area(recordings, area)) {
      if (!c.has("eval")) continue;
      testing::integer_interpretation meaning;
      auto const result = evaluate(c.graph(), read_inputs(c["eval"]), meaning);
      CHECK_MESSAGE(write_value(result).dump() == c["eval"]["result"].dump(), c.name);
      ++evaluated[area];
    }
  CHECK(evaluated["split_module"] == 198);
  CHECK(evaluated["split_by_tags"] == 66);
  CHECK(evaluated["capability"] == 156);
}

TEST_CASE("read_case: rejects a malformed case and names file, case and key") {
  CHECK(reading_fault(chain()) == "");
  auto const says = [](tree const& body, std::string const& text) {
    auto const message = reading_fault(body);
    CHECK_MESSAGE(message.find(text) != message.npos, message);
    CHECK_MESSAGE(message.find("file.json, case \"a case\"") != message.npos, message);
  };
  auto c = chain();
  c["input"]["surprise"] = 1;
  says(c, ".input: unknown key 'surprise'");
  c = chain();
  c["expect"]["partitions"] = 1;
  says(c, ".expect.partitions: expected a list");
  c = chain();
  c["input"].erase("graph");
  says(c, ".input: no key 'graph'");
  c = chain();
  c["input"]["graph"]["nodes"][1]["args"][0]["node"] = "y";
  says(c, "node 'f': 'y' is no node before this one");
  c = chain();
  c["input"]["graph"]["nodes"][1]["op"] = "call";
  says(c, ".input.graph.nodes[1].op: expected");
  c = chain();
  c["input"]["graph"]["nodes"][1]["name"] = "x";
  says(c, "node 'x': a second node of that name");
  c = chain();
  c["input"]["graph"]["nodes"][1]["args"][0] = {{"node", "x"}, {"list", 1}};
  says(c, "args[0]: unknown key 'list'");
  c = chain();
  c["input"]["graph"]["nodes"][1]["args"][0] = 9223372036854775808u;
  says(c, "does not fit 64 bits");
  CHECK_THROWS_WITH_AS(parse_json(R"({"a": 1, "a": 2})", "f.json"), "f.json: key 'a' twice in one object",
                       cleave::conformance::layout_error);
  CHECK_THROWS_AS(parse_json("{", "f.json"), cleave::conformance::layout_error);
  CHECK_THROWS_AS(parse_json(std::string(200, '[') + std::string(200, ']'), "f.json"),
                  cleave::conformance::layout_error);
  CHECK_THROWS_AS(read_area(recordings, "nowhere"), cleave::conformance::layout_error);
}

TEST_CASE("read_case: ignores remarks and rejects unknown structures") {
  auto c = chain();
  c["seed"] = 17;
  c["author"] = "somebody";
  CHECK(reading_fault(c) == "");
  c["expected values"] = {1, 2};
  CHECK(reading_fault(c) == "file.json, case \"a case\": unknown key 'expected values'");
}

TEST_CASE("areas_of: the layout of a case determines its area") {
  schema const s(layouts);
  CHECK(areas_of(s, chain()) == std::vector<std::string>{"split_module"});
  CHECK(areas_of(s, tree{{"name", "x"}, {"input", {{"colour", "red"}}}}).empty());
  std::size_t alone = 0, tried = 0;
  for (auto const* area : {"capability", "pipe", "slapo", "split_by_tags"}) {
    auto const cases = read_area(recordings, area);
    for (std::size_t i = 0; i < cases.size(); i += 10, ++tried) {
      auto const fitting = areas_of(s, cases[i].body);
      CHECK(std::ranges::count(fitting, area) == 1);
      alone += fitting.size() == 1;
    }
  }
  CHECK(alone == tried);
}

TEST_CASE("read_case: keeps the order of keyword arguments") {
  schema const s(layouts);
  auto const c = read_case(s, "split_module", "file.json", chain(), tree::object());
  auto const& f = c.graph()[1];
  CHECK(f.kwargs[0].key == "b");
  CHECK(f.kwargs[1].key == "a");
}
