// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "cleave/core/language.hpp"

/// The functions of `<cmath>` that the library needs. Including `<cmath>` itself costs 5,000 preprocessed
/// lines.
namespace cleave::inline v0_2 {

/// Returns true if x is neither infinite nor NaN.
constexpr bool is_finite(double x) { return x - x == 0; }

/// Returns the absolute value of x.
constexpr double magnitude(double x) { return x < 0 ? -x : x; }

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns `a * b`, rounded before anything is added to it, so that sums of products have the same bits on
/// every machine. Otherwise a compiler may contract `a * b + c` into one fused instruction, which rounds
/// once. In clang a pragma forbids this. In g++ only a flag does, but g++ does not contract a product that is
/// compared first. If the result is NaN, its bits are unspecified.
template <class T>
constexpr T rounded_product(T a, T b) {
#ifdef __clang__
#pragma clang fp contract(off)
#endif
#if defined(__clang__) || (defined(__x86_64__) && !defined(__FMA__) && !defined(__FMA4__))
  return a * b;
#else
  T const product = a * b;
  return product == product ? product : std::numeric_limits<T>::quiet_NaN();
#endif
}

/// Returns 2^e. Precondition: -1022 <= e <= 1023.
constexpr double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

/// Returns the e with 2^e <= x < 2^(e + 1), or -1023 for all x below 2^-1022. Precondition: x is finite and
/// not negative.
constexpr int binary_exponent(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52) - 1023;
}

/// Returns the square root of x, to one unit in the last place, for x from 2^-1022 up. Returns 0 for smaller
/// x, and x itself if it is infinite or NaN. Precondition: x is not negative. Uses Newton's method on x
/// scaled to [1, 4).
constexpr double square_root(double x) {
  if (!is_finite(x)) return x;
  int const e = binary_exponent(x);
  if (e == -1023) return 0;
  int const half = (e - (e & 1)) / 2;
  double const m = x * power_of_two(-half) * power_of_two(-half);
  double root = 0.59 + rounded_product(0.42, m);
  for (int step = 0; step < 5; ++step) root = 0.5 * (root + m / root);
  return root * power_of_two(half);
}

/// Returns the e with 10^e <= |x| < 10^(e + 1), up to the rounding of some multiplications; 0 for x = 0.
/// Precondition: x is finite.
constexpr int decimal_exponent(double x) {
  double rest = magnitude(x);
  int e = 0;
  if (rest == 0) return 0;
  for (; rest >= 10; rest /= 10) ++e;
  for (; rest < 1; rest *= 10) --e;
  return e;
}

/// Returns 10^e, by repeated multiplication.
constexpr double power_of_ten(int e) {
  double x = 1;
  for (; e > 0; --e) x *= 10;
  for (; e < 0; ++e) x /= 10;
  return x;
}

/// Returns the nearest integer; halves round up. Precondition: 0 <= x < 2^63.
constexpr std::int64_t rounded(double x) {
  auto const whole = static_cast<std::int64_t>(x);
  return whole + (x - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}

}  // namespace cleave::detail
