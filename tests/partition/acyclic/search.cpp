// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/detail/partitioner.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "support/random_level.hpp"

using cleave::acyclic_goal;
using cleave::testing::random_level;

namespace {

void check_legal(random_level const& x, std::vector<std::uint32_t> const& of) {
  REQUIRE(x.in_order(of));
  cleave::detail::acyclic_state<std::uint32_t> const state(x.level, x.limits, of);
  for (std::uint32_t s = 0; s < x.limits.parts(); ++s) REQUIRE(state.time(s) <= x.limits.most[s]);
}

}  // namespace

TEST_CASE(
    "acyclic_search: refining, cycling and reslicing never worsen the value and keep order and balance") {
  cleave::testing::rng r(1);
  int bettered = 0;
  for (int i = 0; i < 40; ++i) {
    random_level x(r, {.nodes = 20 + r.below(80), .reach = 10, .states = 5}, 4);
    auto const of = x.parts(r);
    auto const goal = r.one_in(2) ? acyclic_goal::cut : acyclic_goal::bottleneck;
    cleave::detail::acyclic_state<std::uint32_t> state(x.level, x.limits, of);
    if (goal == acyclic_goal::cut) {
      std::int64_t most = 0;
      for (std::uint32_t s = 0; s < 4; ++s) most = std::max(most, state.time(s));
      x.limits.most.assign(4, most);
    }
    cleave::detail::acyclic_search<std::uint32_t> const search(x.level, x.limits, goal, 0);
    auto const start = search.valued(of);
    goal == acyclic_goal::cut ? cleave::detail::refine_cut(state) : cleave::detail::refine_load(state);
    REQUIRE(search.value_of(state) <= start.value);
    check_legal(x, state.of());
    auto const again = search.cycle(start, r.next());
    REQUIRE(again.value <= start.value);
    REQUIRE(search.valued(again.of).value == again.value);
    check_legal(x, again.of);
    auto const sliced = search.resliced(start, r.next());
    REQUIRE(sliced.value <= start.value);
    check_legal(x, sliced.of);
    if (auto const other = search.from_above(3, r.next())) {
      check_legal(x, other->of);
      REQUIRE(search.valued(other->of).value == other->value);
    }
    bettered += again.value < start.value;
  }
  CHECK(bettered > 30);
}

TEST_CASE("refine_cut: finds the thin middle of a chain even through worse cuts") {
  // A chain with a thin value in the middle: single moves must pass through more expensive cuts.
  cleave::testing::rng r(2);
  random_level x(r, {.nodes = 1}, 2);
  auto& level = x.level;
  level = {};
  std::uint32_t const n = 20;
  level.weight.emplace_back(n, 1);
  level.price.emplace_back();
  for (std::uint32_t u = 0; u < n; ++u) {
    if (u > 0) level.predecessors.add(u - 1);
    level.predecessors.close();
    if (u + 1 < n) level.successors.add(u + 1);
    level.successors.close();
    if (u + 1 == n) break;
    level.touching.add(u);
    level.touching.add(u + 1);
    level.touching.close();
    level.price[0].push_back(u == 9 ? 1 : 5 + (u < 9 ? u : n - u));
  }
  level.touched = cleave::detail::users_of(level.touching, n);
  x.limits.most.assign(2, 16);
  std::vector<std::uint32_t> of(n, 1);
  for (std::uint32_t u = 0; u < 5; ++u) of[u] = 0;
  cleave::detail::acyclic_state<std::uint32_t> state(level, x.limits, of);
  CHECK(state.cut() == 9);
  cleave::detail::refine_cut(state);
  CHECK(state.cut() == 1);
  CHECK(state.time(0) == 10);
}
