// SPDX-License-Identifier: MIT
#include "cleave/graph/adjacency.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("exact_unit: leaves integer weights unchanged") {
  std::vector<std::uint8_t> const weights{0, 3, 255};
  auto const unit = exact_unit(std::span(weights));
  CHECK(unit.exponent == 0);
  for (auto const w : weights) CHECK(in_unit(w, unit) == w);
  CHECK(in_unit(std::numeric_limits<std::int64_t>::max(), {}) == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("exact_unit: scales floating-point weights to a sum between 2^59 and 2^60") {
  for (double const scale : {1e-300, 1e-5, 1.0, 3e200}) {
    std::vector<double> const weights{0.1 * scale, 0, 0.7 * scale, 2 * scale};
    auto const unit = exact_unit(std::span(weights));
    std::int64_t sum = 0;
    for (auto const w : weights) {
      sum += in_unit(w, unit);
      CHECK(unit.value(in_unit(w, unit)) == doctest::Approx(w).epsilon(1e-15));
    }
    CHECK(sum < (std::int64_t{1} << 60));
    if (unit.exponent < 1022) CHECK(sum >= (std::int64_t{1} << 59) - 4);
  }
}

TEST_CASE("exact_unit: uses unit 1 for an empty list, and keeps zero weights 0") {
  CHECK(in_unit(1.0f, exact_unit(std::span<float const>())) == 1);
  std::vector<double> const nothing(3, 0.0);
  CHECK(in_unit(0.0, exact_unit(std::span(nothing))) == 0);
}
