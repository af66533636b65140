// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/growing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/error.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("partition_by_growing: no part is empty, and only the last may exceed its limit") {
  testing::rng r(31);
  for (int i = 0; i < 120; ++i) {
    auto const n = 1 + r.below(40);
    auto const g = testing::random_adjacency(r, n, r.below(3 * n), 3);
    auto const k = static_cast<std::uint32_t>(1 + r.below(n));
    auto const rule = r.one_in(2) ? growing_rule::greedy : growing_rule::breadth_first;
    auto const found = partition_by_growing(g.view(), k, {.rule = rule, .seed = r.next()});
    auto const weights = testing::plain_weights(g, found);
    std::int64_t total = 0;
    for (auto const w : weights) total += w;
    auto const share = (total + k - 1) / k;
    for (std::uint32_t p = 0; p < k; ++p) {
      CHECK(weights[p] > 0);
      if (p + 1 < k) CHECK(weights[p] <= std::max<std::int64_t>(3, share + share * 3 / 100));
    }
    CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
  }
}

TEST_CASE("partition_by_growing: shares equal nodes out evenly") {
  testing::rng r(32);
  for (int i = 0; i < 60; ++i) {
    auto const n = 1 + r.below(60);
    auto g = testing::random_adjacency(r, n, 2 * n, 1);
    auto const k = static_cast<std::uint32_t>(1 + r.below(n));
    CHECK(std::ranges::max(testing::plain_weights(g, partition_by_growing(g.view(), k))) ==
          static_cast<std::int64_t>((n + k - 1) / k));
  }
}

TEST_CASE("partition_by_growing: cuts a path into k pieces and separates cliques") {
  auto const path = testing::grid_adjacency(100, 1);
  for (std::uint32_t const k : {1u, 2u, 7u}) {
    CHECK(partition_by_growing(path.view(), k).cut == k - 1);
    CHECK(partition_by_growing(path.view(), k, {.rule = growing_rule::breadth_first}).cut == k - 1);
  }
  CHECK(partition_by_growing(testing::clique_ring(4, 8).view(), 4).cut == 4);
  CHECK(partition_by_growing(path.view(), 2, {.weights = {.share = {3, 1}}}).part_weights ==
        std::vector<double>{75, 25});
}

TEST_CASE("partition_by_growing: repeats for a seed, and accepts more parts than nodes and zero weights") {
  testing::rng r(33);
  auto const g = testing::random_adjacency(r, 50, 120, 4);
  CHECK(partition_by_growing(g.view(), 5, {.seed = 9}).of ==
        partition_by_growing(g.view(), 5, {.seed = 9}).of);
  auto const few = partition_by_growing(testing::grid_adjacency(3, 1).view(), 8);
  CHECK(std::ranges::count(few.part_weights, 0.0) == 5);
  CHECK(std::ranges::max(few.part_weights) == 1);
  CHECK(partition_by_growing(adjacency_view<int>{}, 3).part_weights == std::vector<double>{0, 0, 0});
  CHECK_THROWS_AS(partition_by_growing(g.view(), 0), error);
  auto weightless = g;
  std::ranges::fill(weightless.node_weight, 0);
  CHECK(partition_by_growing(weightless.view(), 4).of.size() == 50);
}
