// SPDX-License-Identifier: MIT
#include "cleave/partition/acyclic/problem.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cleave/partition/acyclic/state.hpp"
#include "cleave/partition/model/validity.hpp"
#include "support/random_level.hpp"

using cleave::testing::random_level;

TEST_CASE("cut_slices: finds the least cut of all slices within the limits") {
  cleave::testing::rng r(1);
  int found = 0;
  for (int i = 0; i < 300; ++i) {
    auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
    random_level x(r, {.nodes = 1 + r.below(9), .states = 4}, parts);
    x.limits.may_be_empty = r.one_in(2);
    if (r.one_in(2)) x.limits.memory.assign(parts, 5 + r.below(20));
    auto const order = x.order(r);
    auto const n = order.size();
    auto const most = static_cast<std::int64_t>(r.below(30));
    auto const answer = cleave::detail::cut_slices<std::uint32_t>(x.level, x.limits, order, most);

    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    std::vector<std::size_t> at(parts + 1, 0);  // all ascending boundaries
    auto const look = [&] {
      std::vector<std::uint32_t> of(n);
      for (std::uint32_t s = 0; s < parts; ++s) {
        if (at[s] == at[s + 1] && !x.limits.may_be_empty) return;
        for (auto j = at[s]; j < at[s + 1]; ++j) of[order[j]] = s;
      }
      cleave::detail::acyclic_state<std::uint32_t> const state(x.level, x.limits, of);
      for (std::uint32_t s = 0; s < parts; ++s)
        if (state.time(s) > most) return;
      auto const bytes = cleave::part_memory(x.graph, x.of_nodes(of));
      for (std::uint32_t s = 0; s < parts && !x.limits.memory.empty(); ++s)
        if (bytes[s] > x.limits.memory[s]) return;
      least = std::min(least, state.cut());
    };
    auto const each = [&](auto self, std::size_t s) -> void {
      if (s == parts) {
        at[parts] = n;
        look();
        return;
      }
      for (at[s] = at[s - 1]; at[s] <= n; ++at[s]) self(self, s + 1);
    };
    each(each, 1);

    REQUIRE(answer.has_value() == (least != std::numeric_limits<std::int64_t>::max()));
    if (!answer) continue;
    ++found;
    cleave::detail::acyclic_state<std::uint32_t> const state(x.level, x.limits, *answer);
    REQUIRE(state.cut() == least);
    for (std::uint32_t s = 0; s < parts; ++s) REQUIRE(state.time(s) <= most);
  }
  CHECK(found > 80);
}
