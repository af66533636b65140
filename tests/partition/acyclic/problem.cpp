// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/problem.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/model/metrics.hpp"
#include "support/random_level.hpp"

using cleave::cut_measure;
using cleave::testing::random_level;

TEST_CASE("list_cut_values: counts bytes or values once per reading part, or bytes once per edge") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 60; ++i) {
    random_level x(r, {.nodes = 3 + r.below(20), .replicable = 8, .tied = 8}, 3);
    if (x.level.units() == 0) continue;
    auto const of = x.parts(r);
    auto const p = x.of_nodes(of);
    for (auto const counted :
         {cut_measure::received_bytes, cut_measure::received_values, cut_measure::edge_bytes}) {
      auto level = x.level;
      level.touching = {};
      auto const prices = cleave::detail::list_cut_values(x.graph, x.units, counted, level.touching);
      level.touched = cleave::detail::users_of(level.touching, level.units());
      level.price = {{}};
      for (double const price : prices) level.price[0].push_back(static_cast<std::int64_t>(price));
      cleave::detail::acyclic_state<std::uint32_t> const state(level, x.limits, of);
      std::int64_t expected = 0;
      cleave::detail::each_crossing(x.graph, p, [&](auto v, cleave::part_id from, auto readers) {
        auto const bytes = static_cast<std::int64_t>(x.graph.bytes[v]);
        auto const parts = static_cast<std::int64_t>(readers.size());
        if (counted == cut_measure::received_bytes) expected += bytes * parts;
        if (counted == cut_measure::received_values) expected += parts;
        if (counted == cut_measure::edge_bytes)
          for (auto const n : x.graph.users[v])
            if (!x.graph.replicable[n] && p.of[n] != from) expected += bytes;
      });
      REQUIRE(state.cut() == expected);
    }
  }
}

TEST_CASE("load_slices: keeps the order and finds no slices below its own bottleneck") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 40; ++i) {
    random_level const x(r, {.nodes = 4 + r.below(12)}, 3);
    auto const order = x.order(r);
    auto const of = cleave::detail::load_slices<std::uint32_t>(x.level, x.limits, order, 0);
    REQUIRE(of);
    cleave::detail::acyclic_state<std::uint32_t> const state(x.level, x.limits, *of);
    CHECK(!cleave::detail::load_slices<std::uint32_t>(x.level, x.limits, order, 0, state.bottleneck()));
    CHECK(x.in_order(*of));
  }
}
