// SPDX-License-Identifier: MIT
#include "cleave/partition/exact/dominator_chain.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cleave/partition/exact/detail/exact_task.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"

namespace {

using index_type = std::uint32_t;
using task = cleave::detail::exact_task<index_type>;

/// Computes the cost of every part between two places, then tries every sequence of parts.
std::int64_t bound_by_all_parts(task const& t, std::int64_t below, std::size_t places) {
  auto const& weight = t.costs.weight[t.costs.fastest];
  auto const b = cleave::detail::dominator_chain_of<index_type>(t.edges, weight, t.order, places);
  cleave::detail::dominator_chain_cuts<index_type> cuts(t.costs, weight, b);
  auto const end = static_cast<std::size_t>(b.size) + 3;
  std::vector<std::vector<std::int64_t>> load(end, std::vector<std::int64_t>(end)), transfers = load;
  for (std::size_t i = 0; i < end; ++i)
    for (auto j = i + 1; j < end; ++j) {
      auto const from = static_cast<std::int32_t>(i) - 1, to = static_cast<std::int32_t>(j) - 1;
      std::vector<index_type> core;
      for (auto const u : t.order)
        if (b.has(u, from, to)) core.push_back(u);
      auto const cost = cuts.between(from, to, core);
      load[i][j] = cost.load;
      transfers[i][j] = cost.transfers;
    }
  auto const parts = static_cast<std::int64_t>(t.parts);
  auto const time = std::accumulate(weight.begin(), weight.end(), std::int64_t{});
  auto const allows = [&](std::int64_t bound) {
    std::vector<std::int64_t> least(end, cleave::detail::unreachable_load);
    least[0] = 0;
    for (std::uint32_t s = 0; s < t.parts; ++s)
      for (auto j = end; j-- > 0;)
        for (std::size_t i = 0; i < j; ++i)
          if (load[i][j] <= bound) least[j] = std::min(least[j], least[i] + transfers[i][j]);
    return least.back() < cleave::detail::unreachable_load &&
           (t.costs.weight.size() > 1 || time + least.back() <= parts * bound);
  };
  std::int64_t bound = 0;
  while (bound < below && !allows(bound)) ++bound;
  return bound;
}

}  // namespace

TEST_CASE("dominator_chain_bound: equals the bound from the cost of every possible part") {
  cleave::testing::rng r(1);
  int between = 0;
  for (int i = 0; i < 400; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(25), .most_operands = 1 + r.below(3), .tied = 8});
    auto const k = 1 + static_cast<std::uint32_t>(r.below(4));
    auto t =
        cleave::detail::exact_task_of(g, k, {.balance = {.cost_per_byte = static_cast<double>(r.below(3))}});
    if (t.units.size() == 0) continue;
    std::int64_t all = 1;
    for (auto const w : t.costs.weight[0]) all += w;
    for (std::size_t v = 0; v < t.costs.transfer.size(); ++v)
      all += t.costs.transfer[v] * static_cast<std::int64_t>(t.costs.touching[v].size());
    auto const below = static_cast<std::int64_t>(r.below(static_cast<std::size_t>(2 * all)));
    for (std::size_t const places : {2u, 5u, 100u}) {
      auto const expected = bound_by_all_parts(t, below, places);
      auto const found = [&](std::int64_t low, std::size_t most_steps) {
        return cleave::detail::dominator_chain_bound<index_type>(t.edges, t.costs, t.order, low, below,
                                                                 {.places = places, .most_steps = most_steps})
            .bound;
      };
      CHECK(found(0, 1'000'000'000) == expected);
      CHECK(found(0, r.below(100)) <= expected);
      CHECK(found(below / 2, 1'000'000'000) == std::max(below / 2, expected));
      between += expected > 0 && expected < below ? 1 : 0;
    }
  }
  CHECK(between > 100);
}
