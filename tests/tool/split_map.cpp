// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "cleave/formats/stage_map_json.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

namespace {

using cleave::testing::run_tool;
using cleave::testing::scratch_folder;
using cleave::testing::text_of_file;

char const chain_with_skip[] = R"({"format": "cleave graph 1", "nodes": [
  {"name": "x", "op": "placeholder"},
  {"name": "w", "op": "get_attr", "target": "net.weight"},
  {"name": "a", "op": "call_module", "target": "net.a", "operands": ["x"], "cost": 1},
  {"name": "b", "operands": ["a", "w"], "cost": 1},
  {"name": "c", "op": "call_module", "target": "net.c", "operands": ["b"], "cost": 1},
  {"name": "d", "operands": ["c", "a"], "cost": 1},
  {"name": "out", "op": "output", "operands": ["d"]}],
  "attributes": {"net.weight": {"kind": "parameter"}, "net.a": {"kind": "module"}, "net.c": {"kind": "module"}}})";

/// A folder with that graph, and the order of a schedule for it.
struct scene {
  scratch_folder folder;
  std::string graph = folder / "net.json", order = folder / "order.csv", map = folder / "map.json";

  explicit scene(std::string const& name) {
    std::ofstream(graph) << chain_with_skip;
    REQUIRE(run_tool({"schedule", name, "-p", "2", "-m", "4", "--csv", "-o", order}).exit == 0);
  }
  cleave::stage_map written() const { return cleave::read_stage_map_json(text_of_file(map)); }
};

std::string refused(std::vector<std::string> const& words, int code) {
  auto const r = run_tool(words);
  CHECK(r.exit == code);
  return r.to_stderr;
}

}  // namespace

TEST_CASE("cleave split --map: puts stages on the ranks of the schedule") {
  scene const s("ZBVZeroBubble");
  auto const r = run_tool({"split", s.graph, "--schedule", s.order, "--map", s.map});
  INFO(r.to_stderr);
  REQUIRE(r.exit == 0);
  CHECK(r.said.find("map.json") != std::string::npos);
  cleave::rank_id const first{0}, second{1};
  CHECK(s.written() == cleave::stage_map{2,
                                         {{first, {"a"}, {"net.a"}, {}, {"x"}, {"a"}},
                                          {second, {"b"}, {}, {"net.weight"}, {"a"}, {"b"}},
                                          {second, {"c"}, {"net.c"}, {}, {"b"}, {"c"}},
                                          {first, {"d"}, {}, {}, {"c", "a"}, {"d"}}}});
}

TEST_CASE("cleave split --map: without a schedule each stage has its own rank") {
  scene const s("1F1B");
  REQUIRE(run_tool({"split", s.graph, "-k", "3", "--map", s.map}).exit == 0);
  auto const map = s.written();
  CHECK(map.ranks == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(index(map.stages.at(i).rank) == i);
}

TEST_CASE("cleave split --map: every node of a model has a unique name") {
  scene const s("Interleaved1F1B");
  for (std::string const name : {"googlenet", "gpt2"}) {
    auto const model = CLEAVE_SOURCE_DIR "/examples/models/" + name + ".onnx";
    REQUIRE(run_tool({"split", model, "--schedule", s.order, "--map", s.map}).exit == 0);
    std::set<std::string> names;
    std::size_t nodes = 0, state = 0;
    auto const map = s.written();
    CHECK(map.stages.size() == 4);
    for (auto const& stage : map.stages) {
      names.insert(stage.nodes.begin(), stage.nodes.end());
      nodes += stage.nodes.size();
      state += stage.state.size();
    }
    CHECK(names.size() == nodes);
    CHECK(names.count("") == 0);
    CHECK(state > 0);
  }
}

TEST_CASE("cleave split --schedule: rejects a schedule that does not fit the cut and states both") {
  scene const s("1F1B");
  CHECK(refused({"split", s.graph, "-k", "3", "--schedule", s.order}, 2)
            .find("-k 3 asks for another number of stages: ") != std::string::npos);
  REQUIRE(run_tool({"schedule", "Interleaved1F1B", "-p", "2", "-v", "3", "-m", "4", "--csv", "-o", s.order})
              .exit == 0);
  CHECK(refused({"split", s.graph, "--schedule", s.order, "--map", s.map}, 1)
            .find("the schedule has 6 stages, but the graph has 4 nodes to place") != std::string::npos);
  CHECK(refused({"split", s.graph, "--by", "buckets", "--schedule", s.order, "--map", s.map}, 3)
            .find("the cut has 1 stage, ") != std::string::npos);
  std::ofstream(s.order) << "0F0,0B0\n0F1,0B1\n";
  auto const said = refused({"split", s.graph, "--schedule", s.order, "--map", s.map}, 3);
  CHECK(said.find("order.csv:2:1: ") != std::string::npos);
  CHECK(said.find("cleave verify lists all faults") != std::string::npos);
  CHECK(refused({"split", s.graph, "--schedule", s.map, "--map", s.map}, 3).find("map.json") !=
        std::string::npos);
}

TEST_CASE("cleave split --map: rejects a cut inside of modules") {
  scene const s("1F1B");
  std::ofstream(s.graph) << R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"},
    {"name": "m", "op": "call_module", "target": "m", "operands": ["x"]},
    {"name": "out", "op": "output", "operands": ["m"]}],
    "attributes": {"m": {"kind": "module", "body": {"nodes": [
      {"name": "y", "op": "placeholder"}, {"name": "f", "operands": ["y"]}, {"name": "g", "operands": ["f"]},
      {"name": "out", "op": "output", "operands": ["g"]}]}}}})";
  CHECK(refused({"split", s.graph, "--by", "modules=m", "--map", s.map}, 2)
            .find("not for cuts inside its modules") != std::string::npos);
}

TEST_CASE("cleave verify --map: rejects a map for other ranks or stages and states both") {
  scene const s("ZBVZeroBubble");
  REQUIRE(run_tool({"split", s.graph, "--schedule", s.order, "--map", s.map}).exit == 0);
  CHECK(run_tool({"verify", s.order, "--map", s.map}).exit == 0);

  auto const other = s.folder / "other.csv";
  REQUIRE(run_tool({"schedule", "Interleaved1F1B", "-p", "2", "-m", "4", "--csv", "-o", other}).exit == 0);
  auto const differs = refused({"verify", other, "--map", s.map}, 1);
  CHECK(differs.find("map.json and ") != std::string::npos);
  CHECK(differs.find("other.csv: the map has stage 2 on rank 1, the schedule has on rank 0") !=
        std::string::npos);
  REQUIRE(run_tool({"schedule", "1F1B", "-p", "4", "-m", "4", "--csv", "-o", other}).exit == 0);
  CHECK(refused({"verify", other, "--map", s.map}, 1).find("the map has 2 ranks, the schedule has 4 ranks") !=
        std::string::npos);

  std::ofstream(s.map) << R"({"format": "cleave stage map 1", "ranks": 2, "stages": [
    {"stage": 0, "rank": 0, "nodes": ["a"]}, {"stage": 0, "rank": 1, "nodes": ["b"]}]})";
  CHECK(refused({"verify", s.order, "--map", s.map}, 3)
            .find("map.json: map of stages: entry #1 puts stage 0 on rank 1, but an earlier entry has that "
                  "stage") != std::string::npos);
  std::ofstream(s.map)
      << R"({"format": "cleave stage map 1", "ranks": 2, "stages": [{"stage": 0, "nodes": []}]})";
  CHECK(refused({"verify", s.order, "--map", s.map}, 3).find("$.stages[0]: is missing the key 'rank'") !=
        std::string::npos);
}
