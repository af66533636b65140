// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/kway.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::testing::weighted_level;

std::vector<std::int64_t> limits(weighted_level const& g, std::uint32_t k, double slack) {
  std::int64_t total = 0;
  for (auto const w : g.node_weight) total += w;
  auto const share = (total + k - 1) / k;
  return std::vector<std::int64_t>(k, static_cast<std::int64_t>(static_cast<double>(share) * slack));
}

/// A configuration that coarsens even small graphs.
cleave::detail::quality_config quick_config() {
  auto config = cleave::detail::choose_quality_config();
  config.standard.least_nodes = 60, config.standard.nodes_a_part = 5;
  for (auto& trial : config.trials) trial.least_nodes = 40, trial.nodes_a_part = 5;
  return config;
}

cleave::detail::partitioned_level quality_parts(weighted_level const& g,
                                                std::vector<std::int64_t> const& limit,
                                                cleave::detail::quality_config const& config,
                                                std::vector<std::uint32_t> const& fixed, std::uint64_t seed,
                                                std::uint32_t threads) {
  cleave::detail::thread_team const team(threads);
  return cleave::detail::quality_kway(limit, config, seed, team, nullptr).parts(g.view(), fixed);
}

std::vector<std::uint32_t> some_fixed(cleave::testing::rng& r, weighted_level const& g, std::uint32_t k) {
  std::vector<std::uint32_t> fixed(g.node_weight.size(), cleave::detail::no_block);
  for (std::uint32_t part = 0; part < k; ++part) fixed[r.below(fixed.size())] = part;
  return fixed;
}

/// Most nodes have only edges to a few hubs.
weighted_level stars(cleave::testing::rng& r, std::size_t nodes, std::size_t hubs, std::size_t alone) {
  std::vector<std::vector<std::uint32_t>> row(nodes);
  for (std::size_t n = hubs; n + alone < nodes; ++n)
    for (std::size_t edge = 0; edge < 2; ++edge) {
      auto const hub = r.below(1 + r.below(hubs));
      row[n].push_back(static_cast<std::uint32_t>(hub)), row[hub].push_back(static_cast<std::uint32_t>(n));
    }
  weighted_level g;
  for (auto const& list : row) {
    g.targets.insert(g.targets.end(), list.begin(), list.end());
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    g.node_weight.push_back(1);
  }
  g.edge_weight.assign(g.targets.size(), 1);
  return g;
}

}  // namespace

TEST_CASE("quality_kway: parts obey their limits and fixed nodes stay") {
  cleave::testing::rng r(1);
  for (std::size_t i = 0; i < cleave::testing::cases(4, 12); ++i) {
    auto const g = cleave::testing::random_strip(r, 100 + r.below(500), 1 + r.below(20), 1 + r.below(2));
    auto const k = static_cast<std::uint32_t>(2 + r.below(5));
    auto const fixed = i % 2 != 0 ? some_fixed(r, g, k) : std::vector<std::uint32_t>{};
    auto const p = quality_parts(g, limits(g, k, 1.1), quick_config(), fixed, 1, 1);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < k; ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::detail::no_block || p.of[n] == fixed[n]));
  }
}

TEST_CASE("quality_kway: is never worse than its first trial") {
  cleave::testing::rng r(4);
  int better = 0;
  auto const rounds = static_cast<int>(cleave::testing::cases(12, 40));
  for (int i = 0; i < rounds; ++i) {
    auto const g = i % 2 == 0 ? cleave::testing::random_strip(r, 200 + r.below(400), 1 + r.below(20), 2)
                              : stars(r, 300 + r.below(300), 20, i % 4 == 1 ? 100 : 0);
    auto const k = static_cast<std::uint32_t>(2 + r.below(8));
    auto const fixed = i % 3 == 0 ? some_fixed(r, g, k) : std::vector<std::uint32_t>{};
    auto const limit = limits(g, k, 1.03);
    auto const config = quick_config();
    auto const seed = r.below(1000);
    cleave::detail::thread_team const team(1);
    auto const first =
        cleave::detail::multilevel_kway(limit, config.standard, seed, team, nullptr).parts(g.view(), fixed);
    auto const p = quality_parts(g, limit, config, fixed, seed, 1);
    auto const rank = [&](cleave::detail::partitioned_level const& of) {
      return std::pair(excess_weight(of), g.cut(of.of));
    };
    REQUIRE(rank(p) <= rank(first));
    better += rank(p) < rank(first);
  }
  CHECK(better > rounds / 4);
}

TEST_CASE("quality_kway: improve() never increases the cut") {
  cleave::testing::rng r(2);
  for (std::size_t i = 0; i < cleave::testing::cases(4, 12); ++i) {
    auto const g = cleave::testing::random_strip(r, 50 + r.below(300), 1 + r.below(12), 2);
    auto p = cleave::testing::random_parts(r, g, 3);
    auto const before = g.cut(p.of);
    cleave::detail::thread_team const team(1);
    cleave::detail::quality_kway(p.limit, quick_config(), 1, team, nullptr).improve(g.view(), {}, p);
    REQUIRE(g.cut(p.of) <= before);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < 3; ++part) REQUIRE(p.weight[part] <= p.limit[part]);
  }
}

TEST_CASE("quality_kway: gives the same parts with any number of threads") {
  cleave::testing::rng r(3);
  for (auto const& g : {cleave::testing::random_strip(r, cleave::testing::cases(800, 2000), 40, 2),
                        stars(r, cleave::testing::cases(600, 1500), 30, 0)}) {
    auto const of = [&](std::uint32_t threads) {
      return quality_parts(g, limits(g, 7, 1.03), quick_config(), {}, 1, threads).of;
    };
    auto const one = of(1);
    for (std::uint32_t const threads : {2u, 3u, 8u})
      if (threads == 3 || cleave::testing::all_cases()) REQUIRE(of(threads) == one);
  }
}

TEST_CASE("quality_kway: cuts a square into eight parts better than 2 by 4 blocks do") {
  std::size_t const side = 60;
  weighted_level g;
  for (std::size_t n = 0; n < side * side; ++n) {
    auto const to = [&](std::size_t other) { g.targets.push_back(static_cast<std::uint32_t>(other)); };
    if (n >= side) to(n - side);
    if (n % side != 0) to(n - 1);
    if ((n + 1) % side != 0) to(n + 1);
    if (n + side < side * side) to(n + side);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  g.node_weight.assign(side * side, 1);
  g.edge_weight.assign(g.targets.size(), 1);
  for (std::uint64_t seed = 1; seed <= cleave::testing::cases(1, 3); ++seed) {
    auto const config = cleave::detail::choose_quality_config();
    auto const p = quality_parts(g, limits(g, 8, 1.03), config, {}, seed, 1);
    CHECK(g.cut(p.of) < 4 * 60);  // 2 by 4; columns of 3, 2 and 3 cut about 225
  }
}
