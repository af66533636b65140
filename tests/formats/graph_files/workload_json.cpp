// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/workload_json.hpp"

#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cleave/formats/graph_files/graph_file.hpp"
#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<cleave::json::error>([&] { read_workload_json(text); });
}

std::string const small = R"({"maxSizePerFPGA": 16e9, "maxFPGAs": 3, "maxCPUs": 1, "nodes": [
  {"id": 7, "name": "a", "supportedOnFpga": true, "fpgaLatency": 1.5, "cpuLatency": 9, "size": 10, "isBackwardNode": false, "colorClass": 4},
  {"id": 3, "name": "b", "fpgaLatency": 2, "cpuLatency": 8, "size": 0, "isBackwardNode": 1, "colorClass": 4},
  {"id": 5, "name": "c", "fpgaLatency": 0, "cpuLatency": 7, "size": 1, "isBackwardNode": 0}],
  "edges": [{"sourceId": 7, "destId": 3, "cost": 0.25, "size": 4}, {"sourceId": 5, "destId": 3, "cost": 1}]})";

}  // namespace

TEST_CASE("read_workload_json: numbers nodes in the order of the file and makes a set of each colour") {
  auto const d = read_workload_json(small);
  CHECK(d.work == std::vector<double>{1.5, 2, 0});
  CHECK(d.host_work == std::vector<double>{9, 8, 7});
  CHECK(d.memory == std::vector<double>{10, 0, 1});
  CHECK(d.backward == std::vector<char>{0, 1, 0});
  CHECK(d.together == std::vector<std::vector<std::size_t>>{{0, 1}});
  CHECK(d.arcs == std::vector<cost_dag::arc>{{0, 1, .25}, {2, 1, 1}});
  CHECK(d.name == std::vector<std::string>{"a", "b", "c"});
  CHECK(d.devices == 3);
  CHECK(d.hosts == 1);
  CHECK(d.device_memory == 16e9);
  CHECK(read_workload_json(write_workload_json(d)) == d);
}

TEST_CASE("read_workload_json: every file of the benchmarks reads back equal and has a topological order") {
  std::size_t files = 0;
  for (auto const& entry :
       std::filesystem::recursive_directory_iterator(CLEAVE_SOURCE_DIR "/bench/data/throughput-inputs")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    auto const d = read_cost_dag(entry.path().string());
    CHECK(d.nodes() > 20);
    CHECK(order_of(d).size() == d.nodes());
    CHECK(read_workload_json(write_workload_json(d)) == d);
    ++files;
  }
  CHECK(files == 11);
}

TEST_CASE("read_workload_json: rejects malformed files and names the place") {
  CHECK(refused("{}").find("is missing the key 'nodes'") != std::string::npos);
  CHECK(refused(R"({"nodes": [{"id": 1}], "edges": []})")
            .find("$.nodes[0]: lacks the key 'fpgaLatency', its time on an accelerator") !=
        std::string::npos);
  CHECK(refused(R"({"nodes": [{"id": 1, "fpgaLatency": -1}], "edges": []})").find("must not be negative") !=
        std::string::npos);
  CHECK(refused(R"({"nodes": [{"id": 1, "fpgaLatency": 1}, {"id": 1, "fpgaLatency": 1}], "edges": []})")
            .find("$.nodes[1].id: an earlier node has the same id") != std::string::npos);
  CHECK(refused(
            R"({"nodes": [{"id": 1, "fpgaLatency": 1}], "edges": [{"sourceId": 1, "destId": 2, "cost": 1}]})")
            .find("$.edges[0].destId: no node has this id") != std::string::npos);
  CHECK(refused(
            R"({"nodes": [{"id": 1, "fpgaLatency": 1}], "edges": [{"sourceId": 1, "destId": 1, "cost": 1}]})")
            .find("a node depends on itself") != std::string::npos);
}

TEST_CASE("read_workload_json: files with random changes are rejected or read back equal") {
  testing::rng dice(13);
  auto const read = testing::read_mutants(small, 2000, dice, [](std::string const& t) {
    auto const d = read_workload_json(t);
    CHECK(read_workload_json(write_workload_json(d)) == d);
  });
  CHECK(read > 50);
}
