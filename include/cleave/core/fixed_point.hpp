// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/core/real.hpp"

namespace cleave::inline v0_2::detail {

/// A conversion of costs to integers in units of a power of two. Sums are exact and do not depend on the
/// order, and a load minus 1 is the next smaller load. The unit is the largest that rounds every cost by at
/// most 2^-60 of the sum of all costs. Integers of moderate size are exact.
struct fixed_point {
  int exponent = 0;  ///< the unit is 2^-exponent

  /// Returns the unit in which sums stay below 2^60, for costs whose magnitudes add up to `total`.
  static fixed_point for_total(double total) {
    return {total > 0 ? (std::min)(59 - binary_exponent(total), 1022) : 0};
  }

  std::int64_t of(double cost) const { return rounded(cost * power_of_two(exponent)); }
  double value(std::int64_t cost) const { return static_cast<double>(cost) * power_of_two(-exponent); }
};

/// A load above every sum of costs; adding one more such sum does not overflow.
inline constexpr std::int64_t unreachable_load = std::int64_t{1} << 61;

}  // namespace cleave::detail
