// SPDX-License-Identifier: MIT
#include "cleave/io/graph_files/graph_file.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"
#include "support/scratch_folder.hpp"

using namespace cleave;

namespace {

void put(std::string const& file, std::string const& text) { std::ofstream(file, std::ios::binary) << text; }

std::string refused(std::string const& file) {
  return testing::error_text<error>([&] { read_graph_file(file); });
}

}  // namespace

TEST_CASE("graph file: the same path in every format") {
  testing::scratch_folder const at;
  put(at / "a.graph", "3 2\n2\n1 3\n2\n");
  put(at / "a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
  put(at / "a.edges", "0 1\n1 2\n");
  put(at / "a.txt", "0 1\n1 2\n");
  put(at / "a.dimacs", "p edge 3 2\ne 1 2\ne 2 3\n");
  put(at / "b", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n");
  put(at / "c", "c by its first word\np edge 3 2\ne 1 2\ne 2 3\n");
  for (auto const* name : {"a.graph", "a.mtx", "a.edges", "a.txt", "a.dimacs", "b", "c"}) {
    CAPTURE(name);
    auto const g = read_graph_file(at / name);
    CHECK(g.head == std::vector<std::uint32_t>{1, 0, 2, 1});
    CHECK(g.node_weight.empty());
    CHECK(g.edge_weight.empty());
  }
  put(at / "a.dag", "3 2\n1 0\n2 0\n1 0\n0 1 4\n1 2 5\n");
  put(at / "a.json",
      R"({"format": "cleave graph 1", "nodes": [{"name": "a", "cost": 1, "bytes": 4},
          {"name": "b", "operands": ["a"], "cost": 2, "bytes": 5}, {"name": "c", "operands": ["b"], "cost": 1}]})");
  for (auto const* name : {"a.dag", "a.json"}) {
    CAPTURE(name);
    auto const g = read_graph_file<std::int32_t>(at / name);
    CHECK(g.head == std::vector<std::int32_t>{1, 0, 2, 1});
    CHECK(g.node_weight == std::vector<std::int64_t>{1, 2, 1});
    CHECK(g.edge_weight == std::vector<std::int64_t>{4, 4, 5, 5});
    CHECK(read_cost_dag(at / name).arcs == std::vector<cost_dag::arc>{{0, 1, 4}, {1, 2, 5}});
  }
  put(at / "d.json",
      R"({"format": "cleave graph 1", "nodes": [{"name": "a"}, {"name": "b", "operands": ["a"]}]})");
  CHECK(read_graph_file(at / "d.json").node_weight == std::vector<std::int64_t>{1, 1});
  CHECK(read_graph_file(at / "d.json").edge_weight == std::vector<std::int64_t>{1, 1});
}

TEST_CASE("graph file: what goes wrong begins with the file's name") {
  testing::scratch_folder const at;
  CHECK(refused(at / "no.graph").find("no.graph: cannot be opened; check the path") != std::string::npos);
  CHECK(refused(at.path()).find("this is a folder") != std::string::npos);
  put(at / "a.foo", "3 2\n");
  CHECK(refused(at / "a.foo").find("names end in one of .graph, .metis, .mtx") != std::string::npos);
  put(at / "a.graph.gz", "\x1f\x8b");
  CHECK(refused(at / "a.graph.gz").find("unpack it first") != std::string::npos);
  put(at / "a.graph", "3 2\n2\n1 x\n2\n");
  CHECK(refused(at / "a.graph").find("a.graph: line 3, column 3: expected a neighbour") != std::string::npos);
  put(at / "a.json", "{");
  CHECK(refused(at / "a.json").find("a.json: line 1, column 2") != std::string::npos);
  put(at / "half.dag", "2 1\n.5 1\n1 1\n0 1 1\n");
  CHECK_THROWS_AS(read_graph_file(at / "half.dag"), fractional_weight_error);
  CHECK(read_graph_file<std::uint32_t, double>(at / "half.dag").node_weight == std::vector<double>{.5, 1});
  put(at / "heavy.edges", "0 1 5000000000000000000\n");
  CHECK(refused(at / "heavy.edges")
            .find("heavy.edges: graph: the weights of the edges, counted at both ends") != std::string::npos);
  CHECK(testing::error_text<error>([&] { read_cost_dag(at / "a.graph"); }).find(".dag and .json do") !=
        std::string::npos);
}

TEST_CASE("graph file: texts of any bytes are read or refused in each format") {
  testing::rng dice(14);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    static constexpr std::string_view bytes = "0012 \n\n3pec%#.-{";
    for (auto length = dice.below(40); length > 0; --length) text += bytes[dice.below(bytes.size())];
    for (auto const format : {graph_format::metis, graph_format::matrix_market, graph_format::edge_list,
                              graph_format::dimacs, graph_format::dag, graph_format::json})
      try {
        auto const g = read_graph_text<std::uint32_t, double>(text, format);
        CHECK(!find_adjacency_fault(g.view()));
      } catch (error const& e) {
        CHECK(std::string(e.what()).size() < 500);
      }
  }
}
