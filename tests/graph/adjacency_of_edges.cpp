// SPDX-License-Identifier: MIT
#include "cleave/graph/adjacency.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("adjacency_of_edges: lists each edge at both ends in ascending order and drops loops") {
  edge_pairs<std::uint32_t> e;
  e.add(3, 1), e.add(0, 3), e.add(2, 2), e.add(1, 0);
  auto const g = adjacency_of_edges(5, e);
  CHECK(g.offsets == std::vector<std::uint32_t>{0, 2, 4, 4, 6, 6});
  CHECK(g.targets == std::vector<std::uint32_t>{1, 3, 0, 3, 0, 1});
  CHECK(g.edge_weight.empty());
}

TEST_CASE("adjacency_of_edges: merges parallel edges, adding their weights or counting them once") {
  edge_pairs<std::int32_t, double> e;
  e.add(0, 1, 2.5), e.add(1, 0, 1), e.add(1, 2, 4);
  CHECK(adjacency_of_edges(3, e).edge_weight == std::vector<double>{3.5, 3.5, 4, 4});
  CHECK(adjacency_of_edges(3, e, repeated_edges::count_once).edge_weight ==
        std::vector<double>{2.5, 2.5, 4, 4});
  e.weight.clear();
  CHECK(adjacency_of_edges(3, e).edge_weight == std::vector<double>{2, 2, 1, 1});
  CHECK(adjacency_of_edges(3, e, repeated_edges::count_once).edge_weight.empty());
}

TEST_CASE("adjacency_of_edges: equals a table of summed pairs on random edge lists") {
  testing::rng dice(7);
  for (int round = 0; round < 200; ++round) {
    auto const n = 1 + dice.below(12);
    edge_pairs<std::uint8_t, std::int32_t> e;
    std::map<std::pair<std::size_t, std::size_t>, std::int32_t> sum;
    for (auto i = dice.below(40); i > 0; --i) {
      auto const a = dice.below(n), b = dice.below(n);
      auto const w = static_cast<std::int32_t>(dice.below(9));
      e.add(static_cast<std::uint8_t>(a), static_cast<std::uint8_t>(b), w);
      if (a != b) sum[{a, b}] += w, sum[{b, a}] += w;
    }
    auto const g = adjacency_of_edges(n, e);
    CHECK(!find_adjacency_fault(g.view()));
    REQUIRE(g.view().directed_edges() == sum.size());
    auto entry = sum.begin();
    for (std::size_t at = 0, arc = 0; at < n; ++at)
      for (auto const to : g.view().neighbours(at)) {
        CHECK(entry->first == std::pair<std::size_t, std::size_t>(at, to));
        CHECK(g.edge_weight[arc++] == (entry++)->second);
      }
    auto const again = adjacency_of_edges(n, edges_of(g.view()));
    CHECK(again.targets == g.targets);
    CHECK(again.edge_weight == g.edge_weight);
  }
}

TEST_CASE("adjacency_of_edges: rejects too many edges or nodes for the index type, and sums that overflow") {
  edge_pairs<std::int8_t> many;
  for (int i = 0; i < 64; ++i) many.add(0, 1);
  CHECK_THROWS_AS(adjacency_of_edges(2, many), index_overflow);
  CHECK_THROWS_AS(adjacency_of_edges(127, edge_pairs<std::int8_t>{}), index_overflow);
  CHECK(adjacency_of_edges(126, edge_pairs<std::int8_t>{}).view().nodes() == 126);
  edge_pairs<std::uint32_t> heavy;
  heavy.add(0, 1, std::numeric_limits<std::int64_t>::max()), heavy.add(0, 1, 1);
  CHECK_THROWS_AS(adjacency_of_edges(2, heavy), error);
}
