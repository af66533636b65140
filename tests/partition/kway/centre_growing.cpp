// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/rounding.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::detail::no_block;
using cleave::testing::weighted_level;

std::vector<std::uint32_t> grown_parts(weighted_level const& g, std::vector<std::int64_t> const& limit,
                                       std::uint32_t rounds, std::uint64_t seed) {
  cleave::splitmix random(seed);
  cleave::detail::lazy_random_walk const walk(g.view());
  return cleave::detail::centre_growing(g.view(), walk, limit).parts(rounds, random);
}

/// The number of connected components of a part.
std::size_t pieces(weighted_level const& g, std::vector<std::uint32_t> const& of, std::uint32_t part) {
  std::vector<bool> seen(of.size());
  std::size_t count = 0;
  for (std::uint32_t n = 0; n < of.size(); ++n) {
    if (of[n] != part || seen[n]) continue;
    ++count;
    std::vector<std::uint32_t> open{n};
    seen[n] = true;
    while (!open.empty()) {
      auto const at = open.back();
      open.pop_back();
      for (auto e = g.offsets[at]; e < g.offsets[at + 1]; ++e)
        if (auto const other = g.targets[e]; of[other] == part && !seen[other])
          seen[other] = true, open.push_back(other);
    }
  }
  return count;
}

std::vector<std::int64_t> part_weights(weighted_level const& g, std::vector<std::uint32_t> const& of,
                                       std::size_t parts) {
  std::vector<std::int64_t> sums(parts);
  for (std::size_t n = 0; n < of.size(); ++n)
    if (of[n] != no_block) sums[of[n]] += g.node_weight[n];
  return sums;
}

}  // namespace

TEST_CASE("centre_growing: parts of a square are connected, similar in size and improve over rounds") {
  auto const g = cleave::testing::triangulated_squares(60);
  std::vector<std::int64_t> const limit(20, 60 * 60 / 20);
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    auto const of = grown_parts(g, limit, 30, seed);
    auto const weight = part_weights(g, of, limit.size());
    for (std::uint32_t part = 0; part < limit.size(); ++part) {
      CHECK(pieces(g, of, part) == 1);
      CHECK(weight[part] > limit[part] / 2);
      CHECK(weight[part] < limit[part] * 3 / 2);
    }
    auto const first = part_weights(g, grown_parts(g, limit, 1, seed), limit.size());
    CHECK(*std::max_element(weight.begin(), weight.end()) < *std::max_element(first.begin(), first.end()));
  }
}

TEST_CASE("centre_growing: part weights follow their limits") {
  auto const g = cleave::testing::triangulated_squares(60);
  std::vector<std::int64_t> limit(16, 150);
  for (std::size_t part = 0; part < 8; ++part) limit[part] = 300;
  auto const weight = part_weights(g, grown_parts(g, limit, 60, 1), limit.size());
  auto const light = std::count_if(weight.begin() + 8, weight.end(), [](auto w) { return w < 225; });
  auto const heavy = std::count_if(weight.begin(), weight.begin() + 8, [](auto w) { return w > 225; });
  CHECK(light >= 7);
  CHECK(heavy >= 7);
}

TEST_CASE("centre_growing: assigns all but a few unreachable nodes, and gives up if there are many") {
  auto g = cleave::testing::triangulated_squares(40);
  for (int alone = 0; alone < 5; ++alone) g.offsets.push_back(g.offsets.back()), g.node_weight.push_back(1);
  std::vector<std::int64_t> const limit(16, 110);
  auto const of = grown_parts(g, limit, 10, 1);
  for (std::size_t n = 0; n < of.size(); ++n) CHECK((of[n] < limit.size()) == (n < 40 * 40));
  CHECK(grown_parts(cleave::testing::triangulated_squares(20, 2), limit, 10, 1).empty());
}

TEST_CASE("centre_growing: parts of random weighted graphs are connected") {
  cleave::testing::rng r(1);
  int whole = 0;
  for (int i = 0; i < 200; ++i) {
    auto g = cleave::testing::random_strip(r, 1 + r.below(300), 1 + r.below(15), 1 + r.below(1u << 20));
    if (i % 5 == 0) g.node_weight.assign(g.node_weight.size(), 0);
    std::vector<std::int64_t> const limit(1 + r.below(20), 1 + static_cast<std::int64_t>(r.below(1000)));
    auto const of = grown_parts(g, limit, static_cast<std::uint32_t>(1 + r.below(12)), r.next());
    if (of.empty()) continue;
    ++whole;
    REQUIRE(of.size() == g.node_weight.size());
    for (auto const part : of) REQUIRE((part < limit.size() || part == no_block));
    for (std::uint32_t part = 0; part < limit.size(); ++part) REQUIRE(pieces(g, of, part) <= 1);
  }
  CHECK(whole > 50);
}
