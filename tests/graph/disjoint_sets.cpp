// SPDX-License-Identifier: MIT
#include "cleave/graph/disjoint_sets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

TEST_CASE("disjoint_sets: represents each set by its smallest member") {
  testing::rng random(5);
  for (int round = 0; round < 200; ++round) {
    std::size_t const n = 1 + random.below(12);
    disjoint_sets<std::uint32_t> sets(n);
    std::vector<std::size_t> label(n);
    for (std::size_t i = 0; i < n; ++i) label[i] = i;
    for (auto joins = random.below(2 * n); joins-- > 0;) {
      auto const a = random.below(n), b = random.below(n);
      sets.join(a, b);
      auto const low = std::min(label[a], label[b]), high = std::max(label[a], label[b]);
      std::ranges::replace(label, high, low);
    }
    for (std::size_t i = 0; i < n; ++i) CHECK(sets[i] == label[i]);
  }
}

TEST_CASE("disjoint_sets: joins a million members in a chain, from either end") {
  std::size_t const n = 1'000'000;
  disjoint_sets<std::uint32_t> up(n), down(n);
  for (std::size_t i = 1; i < n; ++i) up.join(i - 1, i), down.join(n - i, n - i - 1);
  std::size_t others = 0;
  for (std::size_t i = 0; i < n; ++i) others += up[i] != 0 || down[i] != 0;
  CHECK(others == 0);
}
