// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/core/real.hpp"

namespace cleave::detail {

/// Costs as integers, in units of a power of two: sums are exact and the same in any order, and one less than
/// a load is the next load below it. The unit is the largest that keeps every cost as exact as 2^-60 of their
/// sum; integers of moderate size stay what they are.
struct fixed_point {
  int exponent = 0;  ///< the unit is 2^-exponent

  /// So that sums of costs whose magnitudes add up to `total` stay below 2^60.
  static fixed_point for_total(double total) {
    return {total > 0 ? (std::min)(59 - binary_exponent(total), 1022) : 0};
  }

  std::int64_t of(double cost) const { return rounded(cost * power_of_two(exponent)); }
  double value(std::int64_t cost) const { return static_cast<double>(cost) * power_of_two(-exponent); }
};

/// Above every sum of costs, with room to add one.
inline constexpr std::int64_t unreachable_load = std::int64_t{1} << 61;

}  // namespace cleave::detail
