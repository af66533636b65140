// SPDX-License-Identifier: MIT
#include "cleave/partition/repartition/repartition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::int64_t worth(std::vector<std::int64_t> const& profit, std::vector<std::uint32_t> const& column_of) {
  std::int64_t sum = 0;
  for (std::size_t row = 0; row < column_of.size(); ++row)
    sum += profit[row * column_of.size() + column_of[row]];
  return sum;
}

std::int64_t most_by_trying_all(std::vector<std::int64_t> const& profit, std::uint32_t n) {
  std::vector<std::uint32_t> column_of(n);
  std::iota(column_of.begin(), column_of.end(), 0u);
  auto most = std::numeric_limits<std::int64_t>::min();
  do most = std::max(most, worth(profit, column_of));
  while (std::ranges::next_permutation(column_of).found);
  return most;
}

}  // namespace

TEST_CASE("heaviest_assignment: is the best of all permutations, with negative and forbidden entries") {
  cleave::testing::rng dice(4);
  for (int round = 0; round < 300; ++round) {
    auto const n = static_cast<std::uint32_t>(1 + dice.below(6));
    std::vector<std::int64_t> profit(n * n);
    auto const range = dice.one_in(2) ? 4 : 1'000'000'007;
    for (auto& p : profit) {
      p = static_cast<std::int64_t>(dice.below(static_cast<std::size_t>(range))) - range / 3;
      if (dice.one_in(5)) p = -(std::int64_t{1} << 58);
    }
    auto const found = heaviest_assignment(profit, n);
    auto sorted = found;
    std::ranges::sort(sorted);
    for (std::uint32_t i = 0; i < n; ++i) REQUIRE(sorted[i] == i);
    CHECK(worth(profit, found) == most_by_trying_all(profit, n));
  }
}

TEST_CASE("heaviest_assignment: accepts an empty table and recovers a hidden permutation of 200 rows") {
  CHECK(heaviest_assignment({}, 0).empty());
  std::uint32_t const n = 200;
  cleave::testing::rng dice(5);
  std::vector<std::uint32_t> hidden(n);
  std::iota(hidden.begin(), hidden.end(), 0u);
  dice.shuffle(hidden);
  std::vector<std::int64_t> profit(n * n);
  for (std::uint32_t row = 0; row < n; ++row)
    for (std::uint32_t column = 0; column < n; ++column)
      profit[row * n + column] = hidden[row] == column ? 100 : static_cast<std::int64_t>(dice.below(100));
  CHECK(heaviest_assignment(profit, n) == hidden);
}
