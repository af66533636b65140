// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/v_schedules.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;
using testing::order_defect;
using testing::run_order;

TEST_CASE("v_half: runs every pass once, for any numbers of ranks and microbatches") {
  for (std::uint32_t p = 1; p <= 9; ++p)
    for (std::uint32_t const m : {1u, 2u, p, 3 * p}) CHECK(order_defect(v_half(p, m)) == "");
}

TEST_CASE("v_half: the peak memory is the published share of that of 1F1B") {
  // A stage here is half as large as a stage of 1F1B, which keeps p microbatches.
  auto const share = [](std::uint32_t p) {
    auto const peak = run_order(v_half(p, 6 * p)).peak;
    return static_cast<double>(*std::ranges::max_element(peak)) / (2 * p);
  };
  CHECK(share(4) == doctest::Approx(0.75));
  CHECK(share(6) == doctest::Approx(0.67).epsilon(0.01));
  CHECK(share(8) == doctest::Approx(0.625));
  CHECK(share(9) == doctest::Approx(0.56).epsilon(0.01));
  CHECK(share(16) == doctest::Approx(0.56).epsilon(0.01));
}

TEST_CASE("v_half: has a smaller bubble than 1F1B") {
  for (std::uint32_t const p : {4u, 8u, 16u}) {
    auto const m = 4 * p;
    CHECK(run_order(v_half(p, m)).makespan / 2 < 3 * m + 3 * (p - 1));
  }
}
