// SPDX-License-Identifier: MIT
#include "cleave/schedule/verify/shortest_circle.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The length of a shortest circle: by powers of "can reach in so many steps". 0: none.
std::size_t shortest_length(std::uint32_t places, std::vector<circle_edge> const& edges) {
  std::vector<std::vector<char>> reach(places, std::vector<char>(places));
  for (auto const& e : edges) reach[e.from][e.to] = 1;
  auto walked = reach;
  for (std::size_t length = 1; length <= places; ++length) {
    for (std::uint32_t p = 0; p < places; ++p)
      if (walked[p][p]) return length;
    std::vector<std::vector<char>> next(places, std::vector<char>(places));
    for (std::uint32_t a = 0; a < places; ++a)
      for (auto const& e : edges)
        if (walked[a][e.from]) next[a][e.to] = 1;
    walked = next;
  }
  return 0;
}

}  // namespace

TEST_CASE("shortest circle: as long as powers of the graph say, and closed") {
  testing::rng random(5);
  for (int i = 0; i < 500; ++i) {
    auto const places = static_cast<std::uint32_t>(1 + random.below(8));
    std::vector<circle_edge> edges;
    for (std::size_t n = random.below(12); n > 0; --n)
      edges.push_back({static_cast<std::uint32_t>(random.below(places)),
                       static_cast<std::uint32_t>(random.below(places))});
    auto const circle = shortest_circle(places, edges);
    REQUIRE(circle.size() == shortest_length(places, edges));
    for (std::size_t k = 0; k < circle.size(); ++k)
      REQUIRE(edges[circle[k]].to == edges[circle[(k + 1) % circle.size()]].from);
  }
}

TEST_CASE("shortest circle: one that waits for itself is the shortest") {
  std::vector<circle_edge> const edges = {{0, 1}, {1, 0}, {2, 2}};
  CHECK(shortest_circle(3, edges) == std::vector<std::uint32_t>{2});
  CHECK(shortest_circle(2, std::vector<circle_edge>{{0, 1}}).empty());
}
