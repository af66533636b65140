// SPDX-License-Identifier: MIT
#include "cleave/core/fixed_point.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "support/rng.hpp"

using cleave::detail::fixed_point;

TEST_CASE("fixed_point: integer costs keep their exact proportions and convert back unchanged") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int64_t> cost(1 + r.below(9));
    std::int64_t total = 0;
    for (auto& c : cost) total += c = static_cast<std::int64_t>(r.below(1'000'000'000));
    auto const scale = fixed_point::for_total(static_cast<double>(total));
    std::int64_t sum = 0;
    for (auto const c : cost) {
      auto const scaled = scale.of(static_cast<double>(c));
      REQUIRE(scaled == c << scale.exponent);
      REQUIRE(scale.value(scaled) == static_cast<double>(c));
      sum += scaled;
    }
    REQUIRE(sum == total << scale.exponent);
  }
}

TEST_CASE("fixed_point: rounds a cost by at most 2^-60 of the total and keeps totals below 2^60") {
  cleave::testing::rng r(2);
  for (int exponent = -900; exponent <= 900; ++exponent) {
    double const total = (1 + r.unit()) * cleave::detail::power_of_two(exponent);
    auto const scale = fixed_point::for_total(total);
    REQUIRE(scale.of(total) >= std::int64_t{1} << 59);
    REQUIRE(scale.of(total) < std::int64_t{1} << 60);
    for (int i = 0; i < 5; ++i) {
      double const cost = r.unit() * total;
      REQUIRE(cleave::magnitude(scale.value(scale.of(cost)) - cost) <= total * 0x1p-60);
    }
  }
}

TEST_CASE("fixed_point: handles a total of zero and the largest and smallest doubles") {
  CHECK(fixed_point::for_total(0).exponent == 0);
  CHECK(fixed_point::for_total(0).of(0) == 0);
  double const most = std::numeric_limits<double>::max(), least = std::numeric_limits<double>::min();
  CHECK(fixed_point::for_total(most).of(most) < std::int64_t{1} << 60);
  CHECK(fixed_point::for_total(most).value(fixed_point::for_total(most).of(most)) == most);
  CHECK(fixed_point::for_total(least).of(least) == 1);
  CHECK(fixed_point::for_total(least).value(1) == least);
  CHECK(fixed_point::for_total(std::numeric_limits<double>::denorm_min()).of(least) == 1);
}
