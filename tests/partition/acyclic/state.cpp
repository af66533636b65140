// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/state.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cleave/partition/model/metrics.hpp"
#include "support/random_level.hpp"

using cleave::testing::random_level;

TEST_CASE("acyclic_state: loads and cut equal the metrics after any moves, and parts stay in order") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 40; ++i) {
    auto const parts = static_cast<std::uint32_t>(2 + r.below(4));
    random_level x(r, {.nodes = 3 + r.below(25), .states = 5, .tied = 6, .ordered = 6}, parts);
    x.limits.memory.assign(parts, 30);
    auto const of = x.parts(r);
    cleave::detail::acyclic_state<std::uint32_t> state(x.level, x.limits, of);
    for (int step = 0; step < 40; ++step) {
      auto const u = static_cast<std::uint32_t>(r.below(x.level.units()));
      auto const [first, last] = state.range(u);
      auto const to = static_cast<std::uint32_t>(first + r.below(last - first + 1));
      if (to != state.of()[u]) {
        auto const [left, entered] = state.loads_after(u, to);
        auto moved = state.of();
        moved[u] = to;
        bool const fits = cleave::part_memory(x.graph, x.of_nodes(moved))[to] <= 30;
        REQUIRE(state.fits(u, to) == fits);
        auto const from = state.of()[u];
        state.move(u, to);
        REQUIRE(state.load(from) == left);
        REQUIRE(state.load(to) == entered);
      }
      REQUIRE(x.in_order(state.of()));
      auto const p = x.of_nodes(state.of());
      auto const loads = cleave::part_loads(x.graph, p);
      cleave::detail::acyclic_state<std::uint32_t> const fresh(x.level, x.limits, state.of());
      for (std::uint32_t s = 0; s < parts; ++s) REQUIRE(state.load(s) == fresh.load(s));
      auto const unit = cleave::costs_of(x.graph, x.units, parts, {}).scale;
      REQUIRE(unit.value(state.bottleneck()) == *std::ranges::max_element(loads));
      REQUIRE(unit.value(state.cut()) == static_cast<double>(cleave::detail::cut_bytes(x.graph, p)));
    }
  }
}

TEST_CASE("acyclic_state: the neighbours and the pin of a unit bound its range()") {
  cleave::testing::rng r(2);
  random_level x(r, {.nodes = 20, .reach = 4}, 5);
  cleave::detail::acyclic_state<std::uint32_t> state(x.level, x.limits, x.parts(r));
  for (std::uint32_t u = 0; u < x.level.units(); ++u) {
    auto const [first, last] = state.range(u);
    for (std::uint32_t to = 0; to < 5; ++to) {
      auto of = state.of();
      of[u] = to;
      CHECK(x.in_order(of) == (to >= first && to <= last));
    }
  }
  x.level.window.earliest.assign(x.level.units(), 0);
  x.level.window.latest.assign(x.level.units(), 4);
  x.level.window.earliest[0] = x.level.window.latest[0] = state.of()[0];
  CHECK(state.range(0) == std::pair(state.of()[0], state.of()[0]));
}

TEST_CASE("acyclic_state: the last unit of a part may not leave if empty parts are forbidden") {
  cleave::testing::rng r(3);
  random_level x(r, {.nodes = 4}, 2);
  x.limits.may_be_empty = false;
  std::vector<std::uint32_t> of(x.level.units(), 0);
  of.back() = 1;
  cleave::detail::acyclic_state<std::uint32_t> const state(x.level, x.limits, of);
  CHECK(!state.may_leave(of.size() - 1));
  CHECK(state.may_leave(0) == (of.size() > 2));
}
