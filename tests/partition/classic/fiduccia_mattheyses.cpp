// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

partition random_sides(testing::rng& r, std::size_t nodes) {
  partition p{std::vector<part_id>(nodes), 2};
  for (auto& side : p.of) side = part_id{static_cast<std::uint32_t>(r.below(2))};
  p.of.front() = part_id{0};
  p.of.back() = part_id{1};
  return p;
}

}  // namespace

TEST_CASE("fiduccia_mattheyses: no allowed single move improves the result") {
  testing::rng r(11);
  for (int i = 0; i < 60; ++i) {
    auto const n = 4 + r.below(30);
    auto g = testing::random_adjacency(r, n, 2 * n, 5);
    g.node_weight.clear();
    auto const start = random_sides(r, n);
    auto const found = fiduccia_mattheyses(g.view(), start, {.weights = {.imbalance = 0.2}, .passes = 100});
    auto const most = static_cast<std::int64_t>(static_cast<double>((n + 1) / 2) * 1.2);
    auto const weights = testing::plain_weights(g, found);
    CHECK(std::ranges::max(weights) <= most);
    CHECK(static_cast<double>(testing::plain_cut(g, found.of)) == found.cut);
    if (std::ranges::max(testing::plain_weights(g, start)) <= most)
      CHECK(testing::plain_cut(g, found.of) <= testing::plain_cut(g, start.of));
    for (std::size_t node = 0; node < n; ++node) {
      auto moved = found;
      auto const to = 1 - index(found.of[node]);
      moved.of[node] = part_id{to};
      if (weights[to] + 1 <= most && weights[1 - to] > 1)
        CHECK(testing::plain_cut(g, moved.of) >= testing::plain_cut(g, found.of));
    }
  }
}

TEST_CASE("fiduccia_mattheyses: the cut is never below the optimum and often equals it") {
  testing::rng r(12);
  int exact = 0;
  for (int i = 0; i < 40; ++i) {
    auto const n = 4 + r.below(6);
    auto const g = testing::random_adjacency(r, n, 2 * n, 4);
    std::int64_t total = 0;
    for (auto const w : g.node_weight) total += w;
    auto const most = static_cast<std::int64_t>(static_cast<double>((total + 1) / 2) * 1.3);
    auto const found = fiduccia_mattheyses(g.view(), random_sides(r, n), {.weights = {.imbalance = 0.3}});
    auto const least = testing::least_bisection(g, most);
    if (std::ranges::max(testing::plain_weights(g, found)) > most) continue;
    CHECK(testing::plain_cut(g, found.of) >= least);
    exact += testing::plain_cut(g, found.of) == least;
  }
  CHECK(exact >= 15);
}

TEST_CASE("fiduccia_mattheyses: an overweight side gives nodes away, and fixed nodes stay") {
  auto const g = testing::grid_adjacency(10, 10);
  partition start{std::vector(100, part_id{0}), 2};
  start.of[99] = part_id{1};
  auto const found = fiduccia_mattheyses(g.view(), start);
  CHECK(found.imbalance <= 0.03);
  CHECK(found.cut <= 14);
  std::vector<std::uint8_t> fixed(100, 1);
  CHECK(fiduccia_mattheyses(g.view(), start, {.fixed = fixed}).of == start.of);
  fixed.assign(100, 0);
  fixed[0] = fixed[50] = 1;
  start.of[50] = part_id{1};
  auto const held = fiduccia_mattheyses(g.view(), start, {.fixed = fixed});
  CHECK((held.of[0] == part_id{0} && held.of[50] == part_id{1}));
  CHECK(held.imbalance <= 0.03);
}

TEST_CASE("fiduccia_mattheyses: accepts large and fractional weights and unequal shares") {
  auto const g = testing::clique_ring(4, 6);
  adjacency<int, double, double> scaled{
      {g.offsets.begin(), g.offsets.end()}, {g.targets.begin(), g.targets.end()}, {}, {}};
  scaled.node_weight.assign(24, 0.1);
  scaled.edge_weight.assign(scaled.targets.size(), 1e300);
  testing::rng r(3);
  auto const start = random_sides(r, 24);
  auto const found = fiduccia_mattheyses(scaled.view(), start, {.weights = {.imbalance = 0.1}});
  auto const plain = fiduccia_mattheyses(g.view(), start, {.weights = {.imbalance = 0.1}});
  CHECK(found.of == plain.of);
  CHECK(found.cut == doctest::Approx(plain.cut * 1e300));
  CHECK(found.part_weights[0] + found.part_weights[1] == doctest::Approx(2.4));
  auto const uneven = fiduccia_mattheyses(g.view(), start, {.weights = {.share = {3, 1}, .imbalance = 0.0}});
  CHECK(testing::plain_weights(g, uneven) == std::vector<std::int64_t>{18, 6});
}

TEST_CASE("fiduccia_mattheyses: rejects invalid starts, weights and graphs") {
  auto const g = testing::grid_adjacency(3, 1);
  auto const view = g.view();
  partition const start{{part_id{0}, part_id{1}, part_id{1}}, 2};
  auto const text = [](auto act) { return testing::error_text(act); };
  CHECK(text([&] {
          fiduccia_mattheyses(view, {{part_id{0}}, 2});
        }).find("1 entries, but the number of nodes is 3") != std::string::npos);
  CHECK(text([&] {
          fiduccia_mattheyses(view, {start.of, 3});
        }).find("needs a partition with 2 parts; this one has 3") != std::string::npos);
  CHECK(text([&] { fiduccia_mattheyses(view, {{part_id{0}, part_id{2}, no_part}, 2}); }).find("node #1") ==
        0);
  CHECK_THROWS_AS(fiduccia_mattheyses(view, start, {.fixed = {1}}), error);
  CHECK_THROWS_AS(fiduccia_mattheyses(view, start, {.weights = {.share = {1, 1, 1}}}), error);
  CHECK_THROWS_AS(fiduccia_mattheyses(view, start, {.weights = {.share = {0, 0}}}), error);
  CHECK_THROWS_AS(fiduccia_mattheyses(view, start, {.weights = {.imbalance = -0.5}}), error);
  auto one_sided = g;
  one_sided.targets[0] = 2;
  CHECK_THROWS_AS(fiduccia_mattheyses(one_sided.view(), start), adjacency_error);
  CHECK(fiduccia_mattheyses(view, start, {.passes = 0}).of == start.of);
  CHECK(fiduccia_mattheyses(adjacency_view<int>{}, {{}, 2}).cut == 0);
}
