// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstdint>
#include <limits>

#include "cleave/core/language.hpp"

/// What the library needs of `<cmath>`, which alone costs 5,000 preprocessed lines.
namespace cleave {

/// Neither infinite nor NaN.
constexpr bool is_finite(double x) { return x - x == 0; }

constexpr double magnitude(double x) { return x < 0 ? -x : x; }

}  // namespace cleave

namespace cleave::detail {

/// `a * b`, rounded before anything is added to it, so that sums of products have the same bits on every
/// machine: where a processor has one instruction for `a * b + c`, which rounds once, compilers take it
/// unless they are told not to. g++ hears of that by a flag alone, but adds nothing to a product that it
/// compares first. Which NaN comes out is nobody's promise.
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

/// 2^e, for -1022 <= e <= 1023.
constexpr double power_of_two(int e) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(e + 1023) << 52);
}

/// The e with 2^e <= x < 2^(e + 1); -1023 for all x below 2^-1022. Precondition: x is finite and not
/// negative.
constexpr int binary_exponent(double x) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(x) >> 52) - 1023;
}

/// The square root, to one unit in the last place, of a number from 2^-1022 up; 0 of what is below, and x
/// itself where it is infinite or NaN. Precondition: x is not negative. Newton's method, on x brought into
/// [1, 4).
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

/// The e with 10^e <= |x| < 10^(e + 1), up to the rounding of some multiplications; 0 for 0. Precondition: x
/// is finite.
constexpr int decimal_exponent(double x) {
  double rest = magnitude(x);
  int e = 0;
  if (rest == 0) return 0;
  for (; rest >= 10; rest /= 10) ++e;
  for (; rest < 1; rest *= 10) --e;
  return e;
}

/// 10^e by repeated multiplication.
constexpr double power_of_ten(int e) {
  double x = 1;
  for (; e > 0; --e) x *= 10;
  for (; e < 0; ++e) x /= 10;
  return x;
}

/// The nearest integer, halves upward. Precondition: 0 <= x < 2^63.
constexpr std::int64_t rounded(double x) {
  auto const whole = static_cast<std::int64_t>(x);
  return whole + (x - static_cast<double>(whole) >= 0.5 ? 1 : 0);
}

}  // namespace cleave::detail
