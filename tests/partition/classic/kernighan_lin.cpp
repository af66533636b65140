// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/kernighan_lin.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

TEST_CASE("kernighan_lin: part sizes stay, the cut never grows, and no swap improves the result") {
  testing::rng r(21);
  for (int i = 0; i < 60; ++i) {
    auto const n = 2 + r.below(24);
    auto g = testing::random_adjacency(r, n, 2 * n, 4);
    g.node_weight.clear();
    partition start{std::vector<part_id>(n), 2};
    for (std::size_t node = 0; node < n; ++node)
      start.of[node] = part_id{static_cast<std::uint32_t>(node % 2)};
    r.shuffle(start.of);
    auto const found = kernighan_lin(g.view(), start, {.passes = 100});
    CHECK(testing::plain_weights(g, found) == testing::plain_weights(g, start));
    CHECK(testing::plain_cut(g, found.of) <= testing::plain_cut(g, start.of));
    CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < a; ++b) {
        auto swapped = found;
        std::swap(swapped.of[a], swapped.of[b]);
        CHECK(testing::plain_cut(g, swapped.of) >= testing::plain_cut(g, found.of));
      }
  }
}

TEST_CASE("kernighan_lin: separates two cliques from any start") {
  testing::rng r(22);
  auto const g = testing::clique_ring(2, 8);
  for (int i = 0; i < 20; ++i) {
    partition start{std::vector<part_id>(16), 2};
    for (std::size_t n = 0; n < 8; ++n) start.of[n] = part_id{1};
    r.shuffle(start.of);
    CHECK(kernighan_lin(g.view(), start).cut == 2);
  }
}

TEST_CASE("kernighan_lin: skips a swap that makes a part too heavy") {
  auto g = testing::adjacency_of(4, {{0, 2, 5}, {1, 3, 5}});
  g.node_weight = {3, 1, 1, 3};
  partition const start{{part_id{0}, part_id{0}, part_id{1}, part_id{1}}, 2};
  CHECK(kernighan_lin(g.view(), start, {.weights = {.imbalance = 0.0}}).cut == 0);
  g.node_weight = {3, 1, 2, 2};
  CHECK(kernighan_lin(g.view(), start, {.weights = {.imbalance = 0.0}}).cut == 10);
  CHECK(kernighan_lin(g.view(), start, {.weights = {.imbalance = 0.3}}).cut == 0);
}

TEST_CASE("kernighan_lin: rejects starts of the wrong length or part count, and accepts an empty side") {
  auto const g = testing::grid_adjacency(3, 1);
  CHECK_THROWS_AS(kernighan_lin(g.view(), {{part_id{0}}, 2}), error);
  CHECK_THROWS_AS(kernighan_lin(g.view(), {std::vector(3, part_id{0}), 1}), error);
  CHECK(kernighan_lin(g.view(), {std::vector(3, part_id{0}), 2}).cut == 0);
  CHECK(kernighan_lin(adjacency_view<int>{}, {{}, 2}).part_weights == std::vector<double>{0, 0});
}
