// SPDX-License-Identifier: MIT
#pragma once
#include <cmath>
#include <cstdint>

#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"

/// Functions that mathematical libraries give in slightly different last bits, from +, -, * and / alone, one
/// to a statement: so no compiler fuses two into one, and every machine makes the same graph. Good to 1e-15.
namespace bench {

/// Precondition: x > 0.
inline double natural_log(double x) {
  int e = cleave::detail::binary_exponent(x);
  double m = x * cleave::detail::power_of_two(-e);
  if (m > 1.4142135623730951) m = m * 0.5, ++e;
  double const s = (m - 1) / (m + 1), square = s * s;
  double sum = 0;
  for (int k = 25; k >= 1; k -= 2) {
    sum = sum * square;
    sum = sum + 1.0 / k;
  }
  double const small = 2 * s;
  double const fraction = small * sum, high = e * 0.69314718036912381649, low = e * 1.9082149292705877e-10;
  double const tail = fraction + low;
  return high + tail;
}

/// Precondition: the result is between 2^-1000 and 2^1000.
inline double exponential(double x) {
  double const ratio = x * 1.4426950408889634;
  auto const k = static_cast<int>(std::lround(ratio));
  double const high = k * 0.69314718036912381649, low = k * 1.9082149292705877e-10;
  double const rest = x - high;
  double const r = rest - low;
  double sum = 1;
  for (int i = 18; i >= 1; --i) {
    sum = sum * r;
    sum = sum / i;
    sum = sum + 1;
  }
  return sum * cleave::detail::power_of_two(k);
}

/// Precondition: x > 0.
inline double power(double x, double y) {
  double const product = y * natural_log(x);
  return exponential(product);
}

/// The cosine of a whole turn times `share`, which is in [0, 1).
inline double cosine_of_turn(double share) {
  double const quarters = share * 4;
  auto const quarter = static_cast<int>(std::lround(quarters));
  double const rest = share - quarter * 0.25;  // exact
  double const angle = rest * 6.283185307179586;
  double const square = angle * angle;
  bool const even = quarter % 2 == 0;
  double sum = 0;
  for (int i = even ? 20 : 21; i >= 2; i -= 2) {
    double const step = sum + 1;
    double const scaled = step * square;
    sum = -scaled / (static_cast<double>(i) * (i - 1));
  }
  double const series = sum + 1;
  double const value = even ? series : angle * series;
  return quarter % 4 == 1 || quarter % 4 == 2 ? -value : value;
}

/// Random numbers, the same everywhere.
class dice {
 public:
  explicit dice(std::uint64_t seed) : numbers_(seed * 0x9e3779b97f4a7c15u + 0x1234567) {}

  double unit() { return static_cast<double>(numbers_.next() >> 11) * 0x1p-53; }  ///< in [0, 1)
  /// Below `bound`, which is below 2^32: the upper half of a product.
  std::uint32_t below(std::uint64_t bound) {
    auto const x = numbers_.next();
    return static_cast<std::uint32_t>(((x >> 32) * bound + ((x & 0xffffffffu) * bound >> 32)) >> 32);
  }
  /// Of mean 0 and deviation 1 (Box, Muller 1958).
  double normal() {
    double const log = natural_log(unit() + 1e-300);
    double const radius = std::sqrt(-2 * log);
    return radius * cosine_of_turn(unit());
  }
  /// `mean`, more or less by up to a share of it.
  double near(double mean, double share) {
    double const over = 2 * share * unit();
    double const factor = 1 - share + over;
    return mean * factor;
  }

 private:
  cleave::splitmix numbers_;
};

}  // namespace bench
