// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/metis_graph.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/graph_texts.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refused(std::string const& text) {
  return testing::error_text<graph_file_error>([&] { read_metis_graph(text); });
}

}  // namespace

TEST_CASE("read_metis_graph: reads the examples of the manual, and write_metis_graph writes them") {
  std::string const plain =
      "7 11\n5 3 2\n1 3 4\n5 4 2 1\n2 3 6 7\n1 3 6\n5 4 7\n6 4\n";  // figure 2 (a) of the manual
  auto const g = read_metis_graph(plain);
  CHECK(g.offsets == std::vector<std::uint32_t>{0, 3, 6, 10, 14, 17, 20, 22});
  CHECK(g.targets[0] == 4);
  CHECK(g.node_weight.empty());
  CHECK(g.edge_weight.empty());
  CHECK(write_metis_graph(g.view()) == plain);

  auto const both = read_metis_graph(
      "% sizes, weights of nodes and of edges\n3 2 111 1\n"
      "9 4 2 1\n% between rows\n8 5 1 1 3 2\n7 6 2 2\n");
  CHECK(both.node_weight == std::vector<std::int64_t>{4, 5, 6});
  CHECK(both.edge_weight == std::vector<std::int64_t>{1, 1, 2, 2});
  CHECK(write_metis_graph(both.view()) == "3 2 011\n4 2 1\n5 1 1 3 2\n6 2 2\n");
}

TEST_CASE("read_metis_graph: accepts isolated nodes, loops, repeated edges, CRLF and a graph without nodes") {
  CHECK(read_metis_graph("3 0\n\n\n\n").view().nodes() == 3);
  CHECK(read_metis_graph("0 0\n").view().nodes() == 0);
  CHECK(read_metis_graph("2 1\r\n2\r\n1").targets == std::vector<std::uint32_t>{1, 0});
  for (std::string const m : {"1", "2"})
    CHECK(read_metis_graph("2 " + m + "\n1 2\n1\n").targets == std::vector<std::uint32_t>{0, 1, 0});
  CHECK(read_metis_graph("2 2\n2 2\n1 1\n").view().directed_edges() == 4);
  CHECK(read_metis_graph<std::int16_t, double>("2 1 1\n2 0.5\n1 5e-1\n").edge_weight[0] == 0.5);
}

TEST_CASE("write_metis_graph: random graphs with all kinds of weights read back equal") {
  testing::rng dice(1);
  for (int round = 0; round < 100; ++round) {
    auto const kind = static_cast<testing::random_weights>(round % 4);
    auto const g = testing::random_adjacency<std::uint64_t, std::int64_t>(dice, 30, kind);
    CHECK(testing::same_graph(read_metis_graph<std::uint64_t>(write_metis_graph(g.view())), g));
    auto const h = testing::random_adjacency<std::int32_t, double>(dice, 30, kind);
    CHECK(testing::same_graph(read_metis_graph<std::int32_t, double>(write_metis_graph(h.view())), h));
  }
}

TEST_CASE("read_metis_graph: reads several weights of nodes, and writes them again") {
  std::vector<std::vector<double>> further{{7}};
  auto const g = read_metis_graph("3 2 111 3\n9 4 0.5 1 2 6\n9 5 2 0 1 6 3 1\n9 6 1e3 1 2 1\n", &further);
  CHECK(g.node_weight == std::vector<std::int64_t>{4, 5, 6});
  CHECK(g.edge_weight == std::vector<std::int64_t>{6, 6, 1, 1});
  CHECK(further == std::vector<std::vector<double>>{{0.5, 2, 1000}, {1, 0, 1}});
  auto const text = write_metis_graph(g.view(), further);
  CHECK(text == "3 2 011 3\n4 0.5 1 2 6\n5 2 0 1 6 3 1\n6 1000 1 2 1\n");
  std::vector<std::vector<double>> again;
  CHECK(testing::same_graph(read_metis_graph(text, &again), g));
  CHECK(again == further);
  read_metis_graph("2 1\n2\n1\n", &again);
  CHECK(again.empty());
}

TEST_CASE("read_metis_graph: rejects wrong numbers of weights and names the place") {
  std::vector<std::vector<double>> further;
  auto const why = [&](std::string const& text) {
    return testing::error_text<graph_file_error>([&] { read_metis_graph(text, &further); });
  };
  CHECK(why("2 1 010 2\n2\n1\n") ==
        "line 2, column 2: expected a further weight of a node, a number, got the end of the line");
  CHECK(
      why("2 1 001 2\n2 1\n1 1\n").starts_with("line 1, column 9: there are several weights per node, but"));
  CHECK(why("2 1 010 9999\n2\n1\n").starts_with("line 1, column 9: at most 1000 weights per node"));
  CHECK(why("2 1 010 2\n2 -1 2\n1 1 1\n").starts_with("line 2, column 3: a further weight of a node is neg"));
  CHECK(why("2 1 010 2\n1 1 2\n1 1\n")
            .starts_with("line 2, column 5: the row of node 1 lists node 2, the row"));
}

TEST_CASE("read_metis_graph: rejects a file whose heading states a wrong size and names the place") {
  CHECK(refused("3 2\n2\n1 3\n") ==
        "line 4, column 1: the file ends after 2 rows of 3; a node without neighbours has an empty line");
  CHECK(refused("2 1\n2\n1\n1\n").starts_with("line 4, column 1: a line after the 2 rows"));
  CHECK(
      refused("2 2\n2\n1\n").starts_with("line 1, column 3: the heading says 2 edges, the rows list 2 ends"));
  CHECK(refused("3 1\n2\n1 3\n2\n").starts_with("line 1, column 3: the heading says 1 edges"));
  CHECK(refused("123456789012345 1\n2\n1\n")
            .starts_with(
                "line 1, column 1: the heading says 123456789012345 nodes, but the file has only 4 bytes"));
  CHECK(refused("2 99999999999999999\n2\n1\n").starts_with("line 1, column 3: the heading says 999"));
  CHECK(refused("2 99999999999999999999999999\n2\n1\n")
            .starts_with("line 1, column 3: expected the number of edges, a whole number from 0, got '9999"));
  auto const narrow = testing::error_text<graph_file_error>([&] {
    std::string text = "200 0\n";
    read_metis_graph<std::int8_t>(text.append(200, '\n'));
  });
  CHECK(narrow.find("more nodes or ends of edges than indices of 8 bits") != std::string::npos);
}

TEST_CASE("read_metis_graph: rejects invalid numbers, nodes and weights and names the place") {
  CHECK(refused("") ==
        "line 1, column 1: expected the number of nodes, a whole number from 0, got the end of the file");
  CHECK(refused("5\n").starts_with("line 1, column 2: expected the number of edges after that of nodes"));
  CHECK(refused("2 1\n2\n3\n") ==
        "line 3, column 1: expected a neighbour, a whole number from 1 to 2, got '3'");
  CHECK(refused("2 1\n0\n1\n").starts_with("line 2, column 1: expected a neighbour"));
  CHECK(refused("2 1\n2x\n1\n").find("got '2x'") != std::string::npos);
  CHECK(refused("2 1 5\n2\n1\n").starts_with("line 1, column 5: expected a format of up to three digits"));
  CHECK(refused("2 1 010 2\n2\n1\n").starts_with("line 1, column 9: only one weight per node is supported"));
  CHECK(refused("2 1 001\n2 -1\n1 -1\n") ==
        "line 2, column 3: the weight of an edge is negative; weights must be 0 or more");
  CHECK(refused("2 1 001\n2\n1\n").starts_with("line 2, column 2: expected the weight of an edge"));
  CHECK(refused("2 1 001\n2 9223372036854775808\n1 1\n").find("to 9223372036854775807") != std::string::npos);
  CHECK_THROWS_AS(read_metis_graph("2 1 001\n2 0.5\n1 0.5\n"), fractional_weight_error);
  CHECK(
      refused("2 1 010\n9223372036854775807 2\n1 1\n").find("the sum of the node weights exceeds 2^63 - 1") !=
      std::string::npos);
}

TEST_CASE("read_metis_graph: rejects an edge that is listed at one end only and names both rows") {
  CHECK(refused("% a path\n4 3\n2\n1 3\n2 4\n\n") ==
        "line 5, column 3: the row of node 3 lists node 4, the row of node 4 (line 6) does not list node 3 "
        "as often; each edge must be in the rows of both its nodes, and counts once in m");
  auto const weights = refused("2 1 001\n2 5\n1 6\n");
  CHECK(weights.starts_with("line 2, column 1: the row of node 1 lists node 2 with weight 5"));
}

TEST_CASE("read_metis_graph: files with random changes are rejected or read back equal") {
  testing::rng dice(3);
  std::string const text = "% c\n5 5 011\n1 2 3 3 4\n2 1 3 3 1\n3 1 4 2 1 4 2\n4 3 2 5 9\n0 4 9\n";
  read_metis_graph(text);
  auto const read = testing::read_mutants(text, 3000, dice, [](std::string const& t) {
    auto const g = read_metis_graph(t);
    CHECK(testing::same_graph(read_metis_graph(write_metis_graph(g.view())), g));
  });
  CHECK(read > 10);
}
