// SPDX-License-Identifier: MIT
// Readers and writers of files, on the seeds of their fuzzers.
#include "cleave/formats.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/run/rendezvous/host_list.hpp"
#include "cleave/run/rendezvous/protocol.hpp"
#include "support/allocation_faults.hpp"
#include "support/project_files.hpp"

using namespace cleave;
using testing::check_each_failure;

namespace {

std::string seed(std::string const& file) { return project::text_of(project::root / "tests/fuzz" / file); }

}  // namespace

TEST_CASE("graph files: each allocation that fails is told, not a fault of the file") {
  for (auto const& [file, format] : {std::pair("plain.graph", graph_format::metis),
                                     {"weights.graph", graph_format::metis},
                                     {"integer.mtx", graph_format::matrix_market},
                                     {"pattern.mtx", graph_format::matrix_market},
                                     {"weights.edges", graph_format::edge_list},
                                     {"nodes.dimacs", graph_format::dimacs}}) {
    CAPTURE(std::string(file));
    auto const text = seed(std::string("read_graph/") + file);
    REQUIRE(!text.empty());
    check_each_failure([&] {
      auto const g = detail::read_graph_text<std::uint32_t, std::int64_t>(text, format, {});
      auto const weighs = !g.node_weight.empty();  // which lists of edges and matrices cannot say
      return write_metis_graph(g.view()) +
             (weighs ? "" : write_edge_list(g.view()) + detail::write_matrix_market(g.view()));
    });
  }
  auto const workload = seed("read_graph/workload.json");
  check_each_failure([&] {
    auto const g = detail::read_graph_text<std::uint32_t, double>(workload, graph_format::json, {});
    return std::pair(g.node_weight, g.edge_weight);
  });
  auto const rows = seed("read_graph/weights.graph");
  check_each_failure([&] {
    std::istringstream in(rows);
    metis_rows<std::int64_t> from(in);
    std::size_t pins = 0;
    while (from.next()) pins += from.neighbours().size();
    return pins;
  });
}

TEST_CASE("hypergraphs, operations and parts: each allocation that fails is told") {
  auto const hmetis = seed("read_graph/weights.hgr"), patoh = seed("read_graph/weights.patoh");
  check_each_failure([&] {
    return write_patoh_hypergraph(read_hmetis_hypergraph<std::uint32_t, std::int64_t>(hmetis).view());
  });
  check_each_failure([&] {
    return write_hmetis_hypergraph(read_patoh_hypergraph<std::uint32_t, std::int64_t>(patoh).view());
  });
  auto const dag = seed("read_graph/operations.dag");
  check_each_failure([&] { return write_workload_json(detail::read_cost_dag_text(dag, graph_format::dag)); });
  check_each_failure([&] { return write_part_file(read_part_file("0\n1\n1\n0\n", 4)); });
}

TEST_CASE("other files: each allocation that fails is told") {
  auto const map = seed("read_places/map.json"), genai = seed("read_plans/genai.json");
  check_each_failure([&] { return write_stage_map_json(read_stage_map_json(map)); });
  check_each_failure([&] { return write_genai_pipeline(read_genai_pipeline(genai)); });
  auto const graph = seed("read_json/graph.json"), hosts = seed("read_places/hosts.txt");
  check_each_failure([&] { return write_graph_json(read_graph_json(graph)); });
  check_each_failure([&] { return read_hosts(hosts); });
  auto const failed = seed("read_messages/failed.bytes"), activity = seed("read_messages/activity.bytes");
  check_each_failure([&] { return detail::failed_message(detail::read_failed(failed)).body; });
  check_each_failure([&] { return detail::activity_message(detail::read_activity(activity)).body; });
}
