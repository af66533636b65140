// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace cleave {

/// Costs as integers, in units of a power of two: sums are exact and the same in any order, and one less than
/// a load is the next load below it. The unit is the largest that keeps every cost as exact as 2^-60 of their
/// sum; integers of moderate size stay what they are.
struct fixed_point {
  int exponent = 0;  ///< the unit is 2^-exponent

  /// So that sums of costs whose magnitudes add up to `total` stay below 2^60.
  static fixed_point for_total(double total) { return {total > 0 ? 59 - std::ilogb(total) : 0}; }

  std::int64_t of(double cost) const { return std::llround(std::ldexp(cost, exponent)); }
  double value(std::int64_t cost) const { return std::ldexp(static_cast<double>(cost), -exponent); }
};

/// Above every sum of costs, with room to add one.
inline constexpr std::int64_t unreachable_load = std::int64_t{1} << 61;

}  // namespace cleave
