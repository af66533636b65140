// SPDX-License-Identifier: MIT
#include "cleave/run/sums/floating_bits.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The value of 16 bits by definition: one sign bit, `exponent_bits`, and the fraction.
double meaning(std::uint16_t bits, int exponent_bits) {
  int const fraction_bits = 15 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  int const exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  int const fraction = bits & ((1 << fraction_bits) - 1);
  double const sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
}

/// Counts wrongly rounded numbers: among all numbers of the type, and on both sides of the middle between
/// two neighbours.
template <class T>
std::size_t wrongly_rounded(int exponent_bits) {
  std::size_t wrong = 0;
  auto const expect = [&](double x, std::uint16_t bits) {
    wrong += narrowed<T>(x).bits != bits;
    auto const f = static_cast<float>(x);
    if (double{f} == x) wrong += narrowed<T>(f).bits != bits;
  };
  int const infinite = ((1 << exponent_bits) - 1) << (15 - exponent_bits);
  for (int sign : {0, 0x8000})
    for (int i = 0; i < infinite; ++i) {
      auto const low = static_cast<std::uint16_t>(i | sign), high = static_cast<std::uint16_t>(low + 1);
      auto const below = static_cast<std::uint16_t>(i == 0 ? low : low - 1);
      double const x = meaning(low, exponent_bits);
      // beyond the largest number, infinity takes the place of the next one
      double const next =
          i + 1 < infinite ? meaning(high, exponent_bits) : x + (x - meaning(below, exponent_bits));
      double const middle = x + (next - x) / 2;
      expect(x, low);
      expect(middle, i % 2 == 0 ? low : high);
      expect(std::nextafter(middle, x), low);
      expect(std::nextafter(middle, next), high);
      expect(std::nextafter(static_cast<float>(middle), static_cast<float>(x)), low);
      if (std::isfinite(static_cast<float>(next)))
        expect(std::nextafter(static_cast<float>(middle), static_cast<float>(next)), high);
    }
  return wrong;
}

}  // namespace

TEST_CASE("widened: every 16-bit number has the value that its format defines") {
  std::size_t wrong = 0;
  for (std::uint32_t b = 0; b < 0x10000; ++b) {
    auto const bits = static_cast<std::uint16_t>(b);
    wrong += !same(widened(float16_bits{bits}), meaning(bits, 5));
    wrong += !same(widened(bfloat16_bits{bits}), meaning(bits, 8));
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrowed: rounds to the nearest number, and ties to even") {
  CHECK(wrongly_rounded<float16_bits>(5) == 0);
  CHECK(wrongly_rounded<bfloat16_bits>(8) == 0);
}

TEST_CASE("narrowed: infinities stay, and a NaN becomes the one that CUDA writes") {
  for (float const sign : {1.f, -1.f}) {
    auto const bit = static_cast<std::uint16_t>(sign < 0 ? 0x8000 : 0);
    CHECK(narrowed<float16_bits>(sign * INFINITY).bits == (bit | 0x7c00));
    CHECK(narrowed<bfloat16_bits>(sign * INFINITY).bits == (bit | 0x7f80));
    CHECK(narrowed<float16_bits>(sign * double{INFINITY}).bits == (bit | 0x7c00));
    CHECK(narrowed<float16_bits>(sign * 1e300).bits == (bit | 0x7c00));
    CHECK(narrowed<bfloat16_bits>(sign * 1e300).bits == (bit | 0x7f80));
    CHECK(narrowed<float16_bits>(sign * 1e-300).bits == bit);
    CHECK(narrowed<float16_bits>(sign * NAN).bits == 0x7fff);
    CHECK(narrowed<bfloat16_bits>(sign * double{NAN}).bits == 0x7fff);
  }
  CHECK(narrowed<bfloat16_bits>(std::bit_cast<float>(0x7f800001u)).bits == 0x7fff);
}

TEST_CASE("narrowed: rounds f64 to 16 bits only once") {
  double const just_above = 1 + 0x1p-11 + 0x1p-40;  // rounded to f32 first, it would be a tie and go to even
  CHECK(narrowed<float16_bits>(static_cast<float>(just_above)).bits == 0x3c00);
  CHECK(narrowed<float16_bits>(just_above).bits == 0x3c01);
  static_assert(narrowed<float16_bits>(1.5).bits == 0x3e00 && widened(float16_bits{0x3e00}) == 1.5f);
}

TEST_CASE("rounded_to_odd: keeps exact numbers and rounds others to an odd neighbour") {
  testing::rng random(21);
  std::size_t wrong = 0;
  for (int i = 0; i < 100'000; ++i) {
    auto const x = std::ldexp(random.unit() - 0.5, static_cast<int>(random.below(340)) - 170);
    float const odd = rounded_to_odd(x);
    if (double{static_cast<float>(x)} == x)
      wrong += odd != static_cast<float>(x);
    else
      wrong += std::bit_cast<std::uint32_t>(odd) % 2 != 1 ||
               !(std::nextafter(odd, -INFINITY) < x && x < std::nextafter(odd, INFINITY));
  }
  CHECK(wrong == 0);
}

TEST_CASE("is_finite: agrees with std::isfinite") {
  std::size_t wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto const short_bits = static_cast<std::uint16_t>(bits);
    wrong += is_finite(bfloat16_bits{short_bits}) != std::isfinite(meaning(short_bits, 8));
    wrong += is_finite(float16_bits{short_bits}) != std::isfinite(meaning(short_bits, 5));
  }
  CHECK(wrong == 0);
  for (double const x : {0.0, -1.0, 3e38, 1e-45, HUGE_VAL, -HUGE_VAL, std::nan("")}) {
    CHECK(is_finite(x) == std::isfinite(x));
    CHECK(is_finite(static_cast<float>(x)) == std::isfinite(static_cast<float>(x)));
  }
  CHECK(is_finite(std::numeric_limits<double>::max()));
}
