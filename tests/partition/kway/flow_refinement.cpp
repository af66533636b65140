// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/flow.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

using namespace cleave::testing;

namespace {

/// The boundary nodes and a few others, in random order.
cleave::detail::boundary_nodes some_active(rng& r, cleave::detail::weighted_view const& g,
                                           cleave::detail::partitioned_level const& p) {
  auto active = cleave::detail::boundary_of(g, p.of, cleave::detail::thread_team(1));
  for (std::uint32_t n = 0; n < g.nodes; ++n)
    if (r.one_in(20)) active.add(n);
  r.shuffle(active.list);
  return active;
}

}  // namespace

TEST_CASE("refine_by_flows: the cut shrinks by the returned gain, limits hold and fixed nodes stay") {
  rng r(1);
  int better = 0;
  for (int i = 0; i < 200; ++i) {
    auto const g = random_strip(r, 2 + r.below(60), 1 + r.below(6), 1 + r.below(5));
    auto p = random_parts(r, g, static_cast<std::uint32_t>(2 + r.below(4)));
    std::vector<std::uint32_t> fixed;
    if (r.one_in(2))
      for (auto const part : p.of) fixed.push_back(r.one_in(3) ? part : cleave::detail::no_block);
    auto const before = g.cut(p.of);
    auto const view = g.view();
    auto active = some_active(r, view, p);
    auto const gain =
        cleave::detail::refine_by_flows(view, p, fixed, active, {}, cleave::detail::thread_team(1));
    REQUIRE(gain >= 0);
    REQUIRE(g.cut(p.of) == before - gain);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < p.parts(); ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (auto const n : cleave::detail::boundary_of(view, p.of, cleave::detail::thread_team(1)).list)
      REQUIRE(active.is[n]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::detail::no_block || p.of[n] == fixed[n]));
    better += gain > 0;
  }
  CHECK(better > 100);
}

TEST_CASE("refine_by_flows: finds the minimum cut of two parts if the strip has room for all nodes") {
  rng r(2);
  for (int i = 0; i < 60; ++i) {
    auto const g = random_strip(r, 4 + r.below(8), 2, 4);
    auto p = random_parts(r, g, 2);
    for (auto& limit : p.limit) limit = 1000;
    std::vector<std::uint32_t> fixed(p.of.size(), cleave::detail::no_block);
    fixed[0] = p.of[0] = 0, fixed[1] = p.of[1] = 1;
    p.weight = weights_of(g, p);
    auto least = g.cut(p.of);
    for (std::uint32_t set = 0; set < 1u << p.of.size(); ++set) {
      if ((set & 3) != 2) continue;
      std::vector<std::uint32_t> of;
      for (std::size_t n = 0; n < p.of.size(); ++n) of.push_back(set >> n & 1);
      least = std::min(least, g.cut(of));
    }
    auto const view = g.view();
    auto active = some_active(r, view, p);
    cleave::detail::refine_by_flows(view, p, fixed, active,
                                    {.width = {.steps = 100, .slack = 100}, .rounds = 20},
                                    cleave::detail::thread_team(1));
    REQUIRE(g.cut(p.of) == least);
  }
}

TEST_CASE("refine_by_flows: gives the same parts with 1 and 3 threads") {
  rng r(3);
  int smaller = 0;
  for (int i = 0; i < 4; ++i) {
    auto const g = random_strip(r, 3000, 30, 3);
    auto const start = random_parts(r, g, 12);
    auto const view = g.view();
    auto one = start, three = start;
    auto active = some_active(r, view, start), active_of_three = active;
    cleave::detail::refine_by_flows(view, one, {}, active, {}, cleave::detail::thread_team(1));
    cleave::detail::refine_by_flows(view, three, {}, active_of_three, {}, cleave::detail::thread_team(3));
    CHECK(one.of == three.of);
    smaller += g.cut(one.of) < g.cut(start.of);
  }
  CHECK(smaller > 1);
}
