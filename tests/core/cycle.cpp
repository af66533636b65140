// SPDX-License-Identifier: MIT
#include "cleave/core/cycle.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The length of a shortest cycle, or 0 if there is none, by powers of the reachability matrix.
std::size_t shortest_length(std::uint32_t nodes, std::vector<directed_arc> const& edges) {
  std::vector<std::vector<char>> reach(nodes, std::vector<char>(nodes));
  for (auto const& e : edges) reach[e.from][e.to] = 1;
  auto walked = reach;
  for (std::size_t length = 1; length <= nodes; ++length) {
    for (std::uint32_t p = 0; p < nodes; ++p)
      if (walked[p][p]) return length;
    std::vector<std::vector<char>> next(nodes, std::vector<char>(nodes));
    for (std::uint32_t a = 0; a < nodes; ++a)
      for (auto const& e : edges)
        if (walked[a][e.from]) next[a][e.to] = 1;
    walked = next;
  }
  return 0;
}

}  // namespace

TEST_CASE("shortest_cycle: returns a closed cycle of minimum length on random graphs") {
  testing::rng random(5);
  for (int i = 0; i < 500; ++i) {
    auto const nodes = static_cast<std::uint32_t>(1 + random.below(8));
    std::vector<directed_arc> edges;
    for (std::size_t n = random.below(12); n > 0; --n)
      edges.push_back(
          {static_cast<std::uint32_t>(random.below(nodes)), static_cast<std::uint32_t>(random.below(nodes))});
    auto const cycle = shortest_cycle(nodes, edges);
    REQUIRE(cycle.size() == shortest_length(nodes, edges));
    for (std::size_t k = 0; k < cycle.size(); ++k)
      REQUIRE(edges[cycle[k]].to == edges[cycle[(k + 1) % cycle.size()]].from);
  }
}

TEST_CASE("shortest_cycle: prefers a self-loop, and returns nothing for an acyclic graph") {
  std::vector<directed_arc> const edges = {{0, 1}, {1, 0}, {2, 2}};
  CHECK(shortest_cycle(3, edges) == std::vector<std::uint32_t>{2});
  CHECK(shortest_cycle(2, std::vector<directed_arc>{{0, 1}}).empty());
}
