// SPDX-License-Identifier: MIT
#include "cleave/core/row_cuts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

using namespace cleave::detail;

namespace {

/// Lexicographic order. The operator of std::vector is wrong before g++ 12.4 if the most significant byte of
/// a number is the first (PR 113960).
struct before {
  bool operator()(std::vector<std::uint32_t> const& a, std::vector<std::uint32_t> const& b) const {
    return std::ranges::lexicographical_compare(a, b);
  }
};

}  // namespace

TEST_CASE("next_row_cut: visits each cut of a row once, in order, and number_of_cuts counts them") {
  for (std::size_t units = 1; units <= 10; ++units)
    for (std::size_t slices = 1; slices <= units; ++slices) {
      auto cut = first_row_cut<std::uint32_t>(units, slices);
      std::set<std::vector<std::uint32_t>, before> seen;
      do {
        CHECK(cut.size() == slices + 1);
        CHECK(cut.front() == 0);
        CHECK(cut.back() == units);
        CHECK(std::ranges::adjacent_find(cut, std::ranges::greater_equal()) == cut.end());
        CHECK((seen.empty() || before()(*seen.rbegin(), cut)));
        seen.insert(cut);
      } while (next_row_cut(cut));
      CHECK(static_cast<double>(seen.size()) == number_of_cuts(units, slices));
    }
}

TEST_CASE("number_of_cuts: is exact where it can be, and does not overflow on the way") {
  CHECK(number_of_cuts(2001, 2) == 2000);
  CHECK(number_of_cuts(51, 26) == 126'410'606'437'752.0);
  CHECK(number_of_cuts(1'000'000, 999'999) == 999'999);
  CHECK(number_of_cuts(1'000'000, 1'000'000) == 1);
  CHECK(number_of_cuts(1'000'000, 500'000) == std::numeric_limits<double>::infinity());
}
