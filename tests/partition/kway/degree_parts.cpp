// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/degree_parts.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

TEST_CASE("degree parts: the nodes of most weight come first, each part is full before the next begins") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    auto g = cleave::testing::random_strip(r, 2 + r.below(40), 1 + r.below(5), 3);
    for (auto& weight : g.node_weight) weight = 1;
    auto const nodes = static_cast<std::int64_t>(g.node_weight.size());
    auto const view = g.view();
    auto const p = cleave::degree_parts(view, std::vector<std::int64_t>(3, (nodes + 2) / 3), {});
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < 3; ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    auto const links = [&](std::uint32_t n) {
      std::int64_t sum = 0;
      for (auto a = view.first[n]; a < view.first[n + 1]; ++a) sum += view.arc_weight(a);
      return sum;
    };
    for (std::uint32_t u = 0; u < view.nodes; ++u)
      for (std::uint32_t v = 0; v < view.nodes; ++v)
        if (links(u) > links(v) && links(v) > 0) REQUIRE(p.of[u] <= p.of[v]);
  }
}

TEST_CASE("degree parts: fixed nodes are where they must be, and take their room") {
  cleave::testing::rng r(2);
  auto g = cleave::testing::random_strip(r, 60, 5, 1);
  std::vector<std::uint32_t> fixed(60, cleave::free_node);
  for (std::size_t n = 0; n < 15; ++n) fixed[n] = 1;
  auto const view = g.view();
  auto const p = cleave::degree_parts(view, {20, 20, 20}, fixed);
  for (std::size_t n = 0; n < 15; ++n) CHECK(p.of[n] == 1);
  CHECK(p.weight == std::vector<std::int64_t>{20, 20, 20});
}
