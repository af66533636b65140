// SPDX-License-Identifier: MIT
#include "cleave/core/real.hpp"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("real: exponents, powers and rounding agree with <cmath>") {
  testing::rng random(2);
  for (int i = 0; i < 200'000; ++i) {
    double const x = std::ldexp(random.unit() + 0.5, static_cast<int>(random.below(2000)) - 1000);
    CHECK(binary_exponent(x) == std::ilogb(x));
    CHECK(magnitude(-x) == x);
    CHECK(is_finite(x));
    double const small = std::ldexp(random.unit(), static_cast<int>(random.below(62)));
    CHECK(rounded(small) == std::llround(small));
    double const near = std::ldexp(random.unit() + 0.1, static_cast<int>(random.below(60)) - 30);
    double const logarithm = std::log10(near);
    if (std::abs(logarithm - std::round(logarithm)) > 1e-9)
      CHECK(decimal_exponent(near) == std::floor(logarithm));
  }
  for (int e = -1022; e <= 1023; ++e) CHECK(power_of_two(e) == std::ldexp(1.0, e));
  for (int e = -20; e <= 20; ++e) {
    CHECK(power_of_ten(e) == doctest::Approx(std::pow(10.0, e)).epsilon(1e-14));
    CHECK(decimal_exponent(e < 0 ? std::pow(10.0, e) * 1.001 : std::pow(10.0, e)) == e);
  }
}

TEST_CASE("is_finite: returns false for infinities and NaN") {
  CHECK_FALSE(is_finite(std::numeric_limits<double>::infinity()));
  CHECK_FALSE(is_finite(-std::numeric_limits<double>::infinity()));
  CHECK_FALSE(is_finite(std::numeric_limits<double>::quiet_NaN()));
  CHECK(is_finite(std::numeric_limits<double>::max()));
  CHECK(is_finite(0.0));
}

TEST_CASE("square_root: is within one unit in the last place of std::sqrt") {
  cleave::testing::rng random(8);
  for (int i = 0; i < 100'000; ++i) {
    auto const x = std::bit_cast<double>(random.next() >> 1);
    if (!is_finite(x) || x < 0x1p-1022) continue;
    double const wanted = std::sqrt(x);
    CHECK(std::abs(square_root(x) - wanted) <= wanted * 0x1p-52);
  }
  for (double const x : {0.0, 1.0, 4.0, 0.25, 144.0, 0x1p-1022, 0x1p1022})
    CHECK(square_root(x) == std::sqrt(x));
  auto const infinity = std::numeric_limits<double>::infinity();
  CHECK(square_root(infinity) == infinity);
  CHECK(std::isnan(square_root(std::numeric_limits<double>::quiet_NaN())));
  CHECK(square_root(0x1p-1030) == 0);
  static_assert(square_root(9) == 3);
}

TEST_CASE("rounded_product: rounds the product to its type, and follows IEEE 754 for infinity and NaN") {
  static_assert(rounded_product(1.5, 3.0) == 4.5);
  static_assert(rounded_product(0x1.000002p0f, 0x1.000002p0f) - 0x1.000004p0f == 0);
  auto const infinity = std::numeric_limits<float>::infinity();
  CHECK(rounded_product(-2.f, infinity) == -infinity);
  CHECK(std::isnan(rounded_product(0.f, infinity)));
  CHECK(std::isnan(rounded_product(1.f, std::numeric_limits<float>::quiet_NaN())));
}
