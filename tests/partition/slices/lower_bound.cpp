// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/balance.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using costs = cleave::unit_costs<index_type>;
using set = std::uint32_t;

/// The load of a part with the units `s`, by definition.
std::int64_t load(costs const& c, std::size_t row, set s) {
  std::int64_t sum = 0;
  for (index_type u = 0; u < c.units(); ++u) sum += (s >> u & 1) != 0 ? c.weight[row][u] : 0;
  for (std::size_t v = 0; v < c.transfer.size(); ++v) {
    auto const inside = std::ranges::count_if(c.touching[v], [&](auto u) { return (s >> u & 1) != 0; });
    if (inside != 0 && inside != static_cast<std::ptrdiff_t>(c.touching[v].size())) sum += c.transfer[v];
  }
  return sum;
}

/// The least bottleneck over all assignments of units to parts, cyclic ones included.
std::int64_t optimum(costs const& c) {
  auto const sets = set{1} << c.units();
  std::vector<std::int64_t> least(sets, cleave::detail::unreachable_load), next;
  least[0] = 0;
  for (auto const row : c.speed_of) {
    next.assign(sets, cleave::detail::unreachable_load);
    for (set s = 0; s < sets; ++s) {
      auto const cost = load(c, row, s);
      for (set rest = (sets - 1) & ~s, done = rest;; done = (done - 1) & rest) {
        next[done | s] = std::min(next[done | s], std::max(least[done], cost));
        if (done == 0) break;
      }
    }
    least.swap(next);
  }
  return least.back();
}

costs random_costs(cleave::testing::rng& r, bool unequal) {
  auto const g = random_graph(r, {.nodes = r.below(8),
                                  .most_weight = r.below(20),
                                  .most_bytes = r.below(20),
                                  .states = 1,
                                  .replicable = 6});
  cleave::load_model model;
  auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
  std::vector<double> speed;
  for (std::uint32_t s = 0; s < parts; ++s) speed.push_back(static_cast<double>(1 + r.below(3)));
  if (unequal) model.speed = speed;
  return cleave::costs_of(g, cleave::detail::units_of(g), parts, model);
}

}  // namespace

TEST_CASE("load_bound: never exceeds the best of all assignments and often equals it") {
  cleave::testing::rng r(1);
  int tight = 0;
  for (int i = 0; i < 300; ++i) {
    auto const c = random_costs(r, i % 2 == 1);
    auto const best = optimum(c);
    REQUIRE(cleave::detail::even_share(c) <= best);
    REQUIRE(cleave::detail::pigeonhole_share(c) <= best);
    auto bound = std::max(cleave::detail::even_share(c), cleave::detail::pigeonhole_share(c));
    for (index_type u = 0; u < c.units(); ++u) bound = std::max(bound, cleave::detail::least_with(c, u));
    REQUIRE(bound <= best);
    REQUIRE(cleave::detail::load_bound(c) == bound);  // with at most eight units all relevant ones are tried
    tight += bound == best;
  }
  CHECK(tight > 100);
  CHECK(tight < 300);
}

TEST_CASE("least_with: equals the least load over all sets that contain the unit") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 200; ++i) {
    auto const c = random_costs(r, true);
    for (index_type u = 0; u < c.units(); ++u) {
      auto least = cleave::detail::unreachable_load;
      for (set s = 0; s < set{1} << c.units(); ++s)
        if ((s >> u & 1) != 0) least = std::min(least, load(c, c.fastest, s));
      REQUIRE(cleave::detail::least_with(c, u) == least);
    }
  }
}

TEST_CASE("even_share, pigeonhole_share: round the share of equal parts up") {
  auto const of = [](std::vector<double> const& weights, std::uint32_t parts) {
    cleave::testing::snapshot_builder b;
    for (double const w : weights) b.node(w);
    auto const g = b.build();
    auto const c = cleave::costs_of(g, cleave::detail::units_of(g), parts, {});
    return std::vector{c.scale.value(cleave::detail::even_share(c)),
                       c.scale.value(cleave::detail::pigeonhole_share(c))};
  };
  CHECK(of({3, 3, 3, 1}, 3) == std::vector<double>{4, 4});
  CHECK(of({3, 3, 3, 3}, 3) == std::vector<double>{4, 6});
  CHECK(of({3}, 5) == std::vector<double>{1, 3});
  CHECK(of({}, 5) == std::vector<double>{0, 0});
}
