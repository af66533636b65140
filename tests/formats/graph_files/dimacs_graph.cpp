// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/dimacs_graph.hpp"

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
  return testing::error_text<graph_file_error>([&] { read_dimacs_graph(text); });
}

}  // namespace

TEST_CASE("read_dimacs_graph: reads edges of the second challenge and arcs of the ninth") {
  auto const g = read_dimacs_graph("c a path\np edge 4 3\nn 2 7\ne 1 2\ne 2 1\ne 3 2\n");
  CHECK(g.offsets == std::vector<std::uint32_t>{0, 1, 3, 4, 4});
  CHECK(g.targets == std::vector<std::uint32_t>{1, 0, 2, 1});
  CHECK(g.node_weight == std::vector<std::int64_t>{1, 7, 1, 1});
  auto const road = read_dimacs_graph("c\np sp 3 4\na 1 2 803\na 2 1 803\nc\na 2 3 5\na 3 2 6\n");
  CHECK(road.edge_weight == std::vector<std::int64_t>{803, 803, 6, 6});
  CHECK(read_dimacs_graph("p col 2 1\ne 1 2\n").edge_weight.empty());
}

TEST_CASE("write_dimacs_graph: random graphs read back equal, and two kinds of weights are rejected") {
  testing::rng dice(8);
  for (int round = 0; round < 90; ++round) {
    auto const kind = static_cast<testing::random_weights>(round % 3);
    auto const g = testing::random_adjacency(dice, 30, kind);
    CHECK(testing::same_graph(read_dimacs_graph(write_dimacs_graph(g.view())), g));
  }
  auto g = testing::random_adjacency(dice, 9, testing::random_weights::both);
  while (g.targets.empty()) g = testing::random_adjacency(dice, 9, testing::random_weights::both);
  CHECK_THROWS_AS(write_dimacs_graph(g.view()), error);
}

TEST_CASE("read_dimacs_graph: rejects malformed files and names the place") {
  CHECK(refused("e 1 2\n").find("expected a line p edge N M") != std::string::npos);
  CHECK(refused("p max 1 2\n").find("got p max") != std::string::npos);
  CHECK(refused("p edge 2 2\ne 1 2\nc more\n").find("the file ends after 1 edges of 2") != std::string::npos);
  CHECK(refused("p edge 2 1\ne 1 2\ne 1 2\n").starts_with("line 3, column 1: more edges than the 1 stated"));
  CHECK(refused("p edge 2 1\ne 1 3\n").find("from 1 to 2, got '3'") != std::string::npos);
  CHECK(refused("p edge 2 1\na 1 2 3\n").find("expected e u v, got 'a'") != std::string::npos);
  CHECK(refused("p sp 2 1\na 1 2\n").find("expected the weight of an arc") != std::string::npos);
  CHECK(refused("p sp 2 1\na 1 2 -3\n").find("negative") != std::string::npos);
  CHECK(refused("p edge 99999999999 1\ne 1 2\n")
            .starts_with("line 1, column 8: 99999999999 nodes in a file of"));
  CHECK(refused("p edge 2 99999999999\ne 1 2\n").find("99999999999 edges are stated") != std::string::npos);
}

TEST_CASE("read_dimacs_graph: files with random changes are rejected or read back equal") {
  testing::rng dice(9);
  for (std::string const text :
       {"c x\np edge 5 4\nn 3 2\ne 1 2\ne 3 2\ne 5 4\ne 1 5\n", "p sp 3 3\na 1 2 3\na 2 1 3\na 3 1 4\n"}) {
    auto const read = testing::read_mutants(text, 2000, dice, [](std::string const& t) {
      auto const g = read_dimacs_graph(t);
      if (g.node_weight.empty() || g.edge_weight.empty())
        CHECK(testing::same_graph(read_dimacs_graph(write_dimacs_graph(g.view())), g));
    });
    CHECK(read > 50);
  }
}
