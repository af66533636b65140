// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/refinement.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

TEST_CASE("refine_by_swaps: the cut shrinks by the returned gain, limits hold and fixed nodes stay") {
  cleave::testing::rng r(1);
  int better = 0;
  for (int i = 0; i < 200; ++i) {
    auto const g = cleave::testing::random_strip(r, 2 + r.below(60), 1 + r.below(6), 1 + r.below(5));
    auto p = cleave::testing::random_parts(r, g, static_cast<std::uint32_t>(2 + r.below(4)));
    for (std::uint32_t part = 0; part + 1 < p.parts(); ++part) p.limit[part] = p.weight[part];
    std::vector<std::uint32_t> fixed;
    if (r.one_in(2))
      for (auto const part : p.of) fixed.push_back(r.one_in(3) ? part : cleave::detail::no_block);
    auto const before = g.cut(p.of);
    auto const view = g.view();
    auto const gain = cleave::detail::refine_by_swaps(view, p, fixed, 5);
    REQUIRE(gain >= 0);
    REQUIRE(g.cut(p.of) == before - gain);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < p.parts(); ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::detail::no_block || p.of[n] == fixed[n]));
    better += gain > 0;
  }
  CHECK(better > 50);
}

TEST_CASE("refine_by_swaps: swaps two nodes if no single move fits") {
  // The triangles 0-1-2 and 3-4-5 with 2 and 3 in the wrong parts; one part is full, the other has room for
  // one node.
  cleave::testing::weighted_level g;
  g.offsets = {0, 2, 4, 6, 8, 10, 12};
  g.targets = {1, 2, 0, 2, 0, 1, 4, 5, 3, 5, 3, 4};
  g.node_weight.assign(6, 1);
  g.edge_weight.assign(12, 1);
  cleave::detail::partitioned_level p{.of = {0, 0, 1, 0, 1, 1}, .weight = {3, 3}, .limit = {3, 4}};
  auto const view = g.view();
  CHECK(cleave::detail::refine_by_swaps(view, p, {}, 3) == 4);
  CHECK(p.of == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
}
