// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/label_propagation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

TEST_CASE("label_clusters: finds each clique as a cluster") {
  auto const g = testing::clique_ring(7, 9);
  auto const found = label_clusters(g.view());
  CHECK(found.parts == 7);
  CHECK(found.cut == 7);
  for (std::size_t n = 0; n < 63; ++n) CHECK(index(found.of[n]) == n / 9);
}

TEST_CASE("label_clusters: no cluster is empty or heavier than the limit and the heaviest node") {
  testing::rng r(71);
  for (int i = 0; i < 80; ++i) {
    auto const n = 1 + r.below(60);
    auto const g = testing::random_adjacency(r, n, r.below(4 * n), 5);
    auto const most = static_cast<std::int64_t>(1 + r.below(30));
    auto const found = label_clusters(g.view(), {.most_weight = static_cast<double>(most), .seed = r.next()});
    std::vector<std::size_t> nodes(found.parts);
    for (auto const p : found.of) ++nodes[index(p)];
    auto const weights = testing::plain_weights(g, found);
    for (std::size_t c = 0; c < weights.size(); ++c) {
      CHECK(nodes[c] > 0);
      if (nodes[c] > 1) CHECK(weights[c] <= std::max<std::int64_t>(most, 5));
    }
    CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
  }
}

TEST_CASE("refine_by_labels: never increases the cut and keeps limits that hold at the start") {
  testing::rng r(72);
  int better = 0;
  for (int i = 0; i < 80; ++i) {
    auto const n = 4 + r.below(60);
    auto g = testing::random_adjacency(r, n, 2 * n, 4);
    g.node_weight.clear();
    auto const k = static_cast<std::uint32_t>(2 + r.below(3));
    partition start{std::vector<part_id>(n), k};
    for (std::size_t node = 0; node < n; ++node)
      start.of[node] = part_id{static_cast<std::uint32_t>(node % k)};
    r.shuffle(start.of);
    auto const found = refine_by_labels(g.view(), start, {.weights = {.imbalance = 0.2}, .seed = r.next()});
    auto const share = static_cast<double>((n + k - 1) / k);
    auto const weights = testing::plain_weights(g, found);
    CHECK(std::ranges::min(weights) > 0);
    CHECK(std::ranges::max(weights) <= static_cast<std::int64_t>(share * 1.2));
    CHECK(testing::plain_cut(g, found.of) <= testing::plain_cut(g, start.of));
    better += testing::plain_cut(g, found.of) < testing::plain_cut(g, start.of);
  }
  CHECK(better > 60);
}

TEST_CASE("refine_by_labels: overweight parts give nodes away, even to parts without a common border") {
  auto const g = testing::grid_adjacency(12, 12);
  partition start{std::vector(144, part_id{0}), 4};
  for (std::uint32_t p = 1; p < 4; ++p) start.of[140 + p] = part_id{p};
  auto const found = refine_by_labels(g.view(), start);
  CHECK(found.imbalance <= 0.03);
  start.of.assign(144, part_id{0});
  CHECK(refine_by_labels(g.view(), start).imbalance <= 0.03);
}

TEST_CASE(
    "label_clusters, refine_by_labels: repeat for a seed, accept tiny graphs and reject invalid input") {
  testing::rng r(73);
  auto const g = testing::random_adjacency(r, 60, 150, 3);
  CHECK(label_clusters(g.view(), {.seed = 5}).of == label_clusters(g.view(), {.seed = 5}).of);
  CHECK(label_clusters(adjacency_view<int>{}).parts == 0);
  CHECK(label_clusters(testing::grid_adjacency(1, 1).view()).parts == 1);
  CHECK(label_clusters(g.view(), {.rounds = 0}).parts == 60);
  CHECK(label_clusters(g.view(), {.most_weight = std::numeric_limits<double>::infinity()}).parts < 60);
  CHECK_THROWS_AS(label_clusters(g.view(), {.most_weight = -1}), error);
  CHECK_THROWS_AS(label_clusters(g.view(), {.most_weight = std::numeric_limits<double>::quiet_NaN()}), error);
  CHECK_THROWS_AS(refine_by_labels(g.view(), {{part_id{0}}, 1}), error);
  CHECK_THROWS_AS(refine_by_labels(g.view(), {std::vector(60, part_id{3}), 3}), error);
  CHECK(refine_by_labels(adjacency_view<int>{}, {{}, 3}).part_weights.size() == 3);
  adjacency<int, float, float> light{{0, 1, 3, 4}, {1, 0, 2, 1}, {0.5f, 0.5f, 0.5f}, {}};
  CHECK(label_clusters(light.view(), {.most_weight = 1.0}).parts == 2);
}
