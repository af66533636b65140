// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/rounding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::detail::lazy_random_walk;
using cleave::detail::no_block;
using cleave::testing::weighted_level;

std::vector<std::uint32_t> smoothed(weighted_level const& g, std::vector<std::uint32_t> of,
                                    std::vector<std::int64_t> const& limit, std::uint32_t rounds,
                                    std::uint32_t steps) {
  lazy_random_walk const walk(g.view());
  cleave::detail::border_smoothing(g.view(), walk, limit).smooth(of, rounds, steps);
  return of;
}

/// The amount of each part at each node after some steps, with one array per part.
std::vector<std::vector<std::uint64_t>> spread_apart(weighted_level const& g,
                                                     std::vector<std::uint32_t> const& of,
                                                     std::uint32_t parts, std::uint32_t steps) {
  lazy_random_walk const walk(g.view());
  std::vector<std::vector<std::uint64_t>> has(parts, std::vector<std::uint64_t>(of.size()));
  for (std::uint32_t part = 0; part < parts; ++part) {
    auto& now = has[part];
    for (std::size_t n = 0; n < of.size(); ++n) now[n] = of[n] == part ? lazy_random_walk::one : 0;
    for (std::uint32_t step = 0; step < steps; ++step) {
      std::vector<std::uint64_t> next(of.size());
      for (std::uint32_t n = 0; n < of.size(); ++n) {
        next[n] = lazy_random_walk::kept * now[n];
        for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) next[n] += walk.share(e) * now[g.targets[e]];
        next[n] /= lazy_random_walk::one;
      }
      now = next;
    }
  }
  return has;
}

}  // namespace

TEST_CASE("lazy_random_walk: the shares of a node's edges follow their weights and sum to at most one") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    auto const g = cleave::testing::random_strip(r, 1 + r.below(100), 1 + r.below(9), 1 + r.below(1u << 30));
    lazy_random_walk const walk(g.view());
    for (std::uint32_t n = 0; n < g.node_weight.size(); ++n) {
      std::uint64_t sum = lazy_random_walk::kept;
      double weight = 0;
      for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
        sum += walk.share(e);
        weight += static_cast<double>(g.edge_weight[e]);
      }
      REQUIRE(sum <= lazy_random_walk::one);
      REQUIRE((g.offsets[n] == g.offsets[n + 1] ||
               sum + g.offsets[n + 1] - g.offsets[n] >= lazy_random_walk::one));
      for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
        auto const exact =
            (lazy_random_walk::one - lazy_random_walk::kept) * static_cast<double>(g.edge_weight[e]) / weight;
        REQUIRE(walk.share(e) <= exact + 1e-3);
        REQUIRE(walk.share(e) >= exact - 1 - 1e-3);
      }
    }
  }
}

TEST_CASE("border_smoothing: a node joins the part it would get most of if each part spread alone") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 200; ++i) {
    auto g = cleave::testing::random_strip(r, 2 + r.below(200), 1 + r.below(12), 1 + r.below(100));
    auto const parts =
        static_cast<std::uint32_t>(1 + r.below(8));  // at most as many as a node keeps track of
    g.node_weight.assign(g.node_weight.size(), 0);   // so that no weights need to be evened out
    std::vector<std::uint32_t> of(g.node_weight.size());
    for (auto& part : of) part = static_cast<std::uint32_t>(r.below(parts));
    auto const steps = static_cast<std::uint32_t>(1 + r.below(10));
    auto const has = spread_apart(g, of, parts, steps);
    auto const got = smoothed(g, of, std::vector<std::int64_t>(parts, 1), 1, steps);
    for (std::size_t n = 0; n < of.size(); ++n)
      for (std::uint32_t part = 0; part < parts; ++part) REQUIRE(has[got[n]][n] >= has[part][n]);
  }
}

TEST_CASE("border_smoothing: straightens jagged borders and evens out part weights") {
  std::size_t const side = 48;
  auto const g = cleave::testing::triangulated_squares(side);
  cleave::testing::rng r(3);
  for (int i = 0; i < 10; ++i) {
    std::vector<std::uint32_t> of;
    for (std::size_t n = 0; n < side * side; ++n) {
      auto const x = std::min(side - 1, n % side + r.below(6)), y = std::min(side - 1, n / side + r.below(6));
      of.push_back(static_cast<std::uint32_t>(y / 16 * 3 + x / 16));
    }
    std::vector<std::int64_t> const limit(9, 256);
    auto const after = smoothed(g, of, limit, 10, 6);
    CHECK(2 * g.cut(after) < g.cut(of));
    std::vector<std::int64_t> weight(9);
    for (auto const part : after) ++weight[part];
    for (auto const w : weight) {
      CHECK(w > 256 * 85 / 100);
      CHECK(w < 256 * 105 / 100);
    }
  }
}

TEST_CASE("border_smoothing: nodes without a part remain without one") {
  auto const g = cleave::testing::triangulated_squares(20, 2);
  std::vector<std::uint32_t> of(800, no_block);
  for (std::uint32_t n = 0; n < 400; ++n) of[n] = n % 4;
  auto const after = smoothed(g, of, std::vector<std::int64_t>(4, 100), 5, 4);
  for (std::size_t n = 0; n < 800; ++n) CHECK((after[n] == no_block) == (n >= 400));
}

TEST_CASE("border_smoothing: returns the heaviest part's weight as a multiple of its share") {
  cleave::testing::rng r(4);
  for (std::uint32_t i = 0; i < 100; ++i) {
    auto const g = cleave::testing::random_strip(r, 50 + r.below(300), 1 + r.below(12), 1 + r.below(100));
    auto const parts = static_cast<std::uint32_t>(1 + r.below(12));
    auto p = cleave::testing::random_parts(r, g, parts);
    std::vector<std::int64_t> const limit(parts, 1);
    lazy_random_walk const walk(g.view());
    cleave::detail::border_smoothing smoothing(g.view(), walk, limit);
    for (auto const steps : {6u, 2u}) {
      auto const told = smoothing.smooth(p.of, 1 + i % 4, steps);
      auto const weight = cleave::testing::weights_of(g, p);
      auto const total = std::accumulate(weight.begin(), weight.end(), std::int64_t{0});
      auto const most = *std::max_element(weight.begin(), weight.end());
      CHECK(told == doctest::Approx(static_cast<double>(most) * parts / static_cast<double>(total)));
    }
  }
}

TEST_CASE("border_smoothing: a second call does not depend on the first") {
  cleave::testing::rng r(5);
  auto const g = cleave::testing::random_strip(r, 400, 20, 50);
  auto const grown = cleave::testing::random_parts(r, g, 8).of;
  std::vector<std::int64_t> const limit(8, 1);
  lazy_random_walk const walk(g.view());
  cleave::detail::border_smoothing smoothing(g.view(), walk, limit);
  auto once = grown;
  smoothing.smooth(once, 5, 8);
  smoothing.smooth(once = grown, 5, 3);
  CHECK(once == smoothed(g, grown, limit, 5, 3));
}
