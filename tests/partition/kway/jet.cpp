// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/kway.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

cleave::detail::boundary_nodes border_of(cleave::testing::weighted_level const& g,
                                         cleave::detail::partitioned_level const& p) {
  cleave::detail::boundary_nodes active;
  active.is.assign(p.of.size(), 0);
  auto const view = g.view();
  for (std::uint32_t n = 0; n < view.nodes; ++n)
    if (is_on_boundary(view, p.of, n)) active.add(n);
  return active;
}

}  // namespace

TEST_CASE("refine_by_jet: the cut shrinks by the returned gain, limits hold and fixed nodes stay") {
  cleave::testing::rng r(1);
  int better = 0;
  for (int i = 0; i < 200; ++i) {
    auto const g = cleave::testing::random_strip(r, 2 + r.below(60), 1 + r.below(6), 1 + r.below(5));
    auto p = cleave::testing::random_parts(r, g, static_cast<std::uint32_t>(2 + r.below(4)));
    std::vector<std::uint32_t> fixed;
    if (r.one_in(2))
      for (auto const part : p.of) fixed.push_back(r.one_in(3) ? part : cleave::detail::no_block);
    auto const before = g.cut(p.of);
    auto active = border_of(g, p);
    auto const view = g.view();
    auto const gain = cleave::detail::refine_by_jet(view, p, fixed, active, {});
    REQUIRE(gain >= 0);
    REQUIRE(g.cut(p.of) == before - gain);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < p.parts(); ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::detail::no_block || p.of[n] == fixed[n]));
    for (auto const n : border_of(g, p).list) REQUIRE(active.is[n]);
    better += gain > 0;
  }
  CHECK(better > 100);
}

TEST_CASE("refine_by_jet: brings overweight parts within their limits if nodes are light") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 50; ++i) {
    auto const g = cleave::testing::random_strip(r, 100, 5, 1);
    cleave::detail::partitioned_level p;
    p.of.assign(100, 0);
    for (std::size_t n = 70; n < 100; ++n) p.of[n] = 1;
    p.weight = {70, 30};
    p.limit = {52, 52};
    auto active = border_of(g, p);
    auto const view = g.view();
    auto const before = g.cut(p.of);
    auto const gain = cleave::detail::refine_by_jet(view, p, {}, active, {});
    REQUIRE(g.cut(p.of) == before - gain);
    REQUIRE(p.weight[0] <= 52);
    REQUIRE(p.weight[1] <= 52);
  }
}
