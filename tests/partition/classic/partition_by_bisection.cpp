// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/partition_by_bisection.hpp"

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

TEST_CASE("partition_by_bisection: parts of equal nodes are within limits and not empty, for any k") {
  testing::rng r(41);
  for (int i = 0; i < 80; ++i) {
    auto const n = 1 + r.below(60);
    auto g = testing::random_adjacency(r, n, 2 * n, 4);
    g.node_weight.clear();
    auto const k = static_cast<std::uint32_t>(1 + r.below(n));
    double const imbalance = r.one_in(3) ? 0 : 0.05;
    auto const found =
        partition_by_bisection(g.view(), k, grow_and_move{}, {.weights = {.imbalance = imbalance}});
    auto const share = (n + k - 1) / k;
    for (auto const w : testing::plain_weights(g, found)) {
      CHECK(w > 0);
      CHECK(w <= static_cast<std::int64_t>(static_cast<double>(share) * (1 + imbalance)));
    }
    CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
  }
}

TEST_CASE("partition_by_bisection: separates cliques exactly and cuts a grid straight") {
  for (std::uint32_t const k : {2u, 3u, 5u, 8u, 13u})
    CHECK(partition_by_bisection(testing::clique_ring(k, 10).view(), k).cut == k);
  CHECK(partition_by_bisection(testing::grid_adjacency(64, 64).view(), 4).cut == 128);
}

TEST_CASE("partition_by_bisection: the cut is never below the optimum and usually equals it") {
  testing::rng r(42);
  int exact = 0;
  for (int i = 0; i < 40; ++i) {
    auto const n = 3 + r.below(7);
    auto g = testing::random_adjacency(r, n, 2 * n, 3);
    g.node_weight.clear();
    auto const cut = testing::plain_cut(g, partition_by_bisection(g.view(), 2).of);
    auto const least = testing::least_bisection(g, static_cast<std::int64_t>((n + 1) / 2));
    CHECK(cut >= least);
    exact += cut == least;
  }
  CHECK(exact >= 35);
}

TEST_CASE("partition_by_bisection: accepts unequal shares and custom bisectors, and repeats for a seed") {
  auto const g = testing::grid_adjacency(60, 1);
  CHECK(partition_by_bisection(g.view(), 3, grow_and_move{},
                               {.weights = {.share = {1, 2, 3}, .imbalance = 0.0}})
            .part_weights == std::vector<double>{10, 20, 30});
  auto const in_order = [](integral_graph const& part, part_targets const& two, std::uint64_t) {
    node_sides side(part.nodes());
    for (std::size_t n = 0; n < side.size(); ++n) side[n] = static_cast<std::int64_t>(n) >= two.target[0];
    return side;
  };
  auto const rows = partition_by_bisection(g.view(), 6, in_order);
  for (std::size_t n = 0; n < 60; ++n) CHECK(index(rows.of[n]) == n / 10);
  auto const all_on_one = [](integral_graph const& part, part_targets const&, std::uint64_t) {
    return node_sides(part.nodes());
  };
  for (double const w : partition_by_bisection(g.view(), 7, all_on_one).part_weights) CHECK(w > 0);
  testing::rng r(43);
  auto const random = testing::random_adjacency(r, 80, 200, 4);
  CHECK(partition_by_bisection(random.view(), 5, grow_and_move{}, {.seed = 3}).of ==
        partition_by_bisection(random.view(), 5, grow_and_move{}, {.seed = 3}).of);
}

TEST_CASE("partition_by_bisection: accepts more parts than nodes and a heavy node, and rejects 0 parts") {
  auto const g = testing::grid_adjacency(3, 1);
  CHECK(std::ranges::count(partition_by_bisection(g.view(), 7).part_weights, 0.0) == 4);
  CHECK(partition_by_bisection(adjacency_view<int>{}, 2).of.empty());
  CHECK(partition_by_bisection(g.view(), 1).cut == 0);
  CHECK_THROWS_AS(partition_by_bisection(g.view(), 0), error);
  auto heavy = testing::grid_adjacency(4, 1);
  heavy.node_weight = {100, 1, 1, 1};
  auto const found = partition_by_bisection(heavy.view(), 4);
  CHECK(found.cut == 3);
  CHECK(std::ranges::min(found.part_weights) == 1);
}
