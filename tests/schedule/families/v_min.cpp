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

TEST_CASE("v_min: runs every pass once, for any numbers of ranks and microbatches") {
  for (std::uint32_t p = 1; p <= 9; ++p)
    for (std::uint32_t const m : {1u, 2u, p, 3 * p}) CHECK(order_defect(v_min(p, m)) == "");
}

TEST_CASE("v_min: the peak memory is the published share of that of 1F1B") {
  auto const share = [](std::uint32_t p) {
    auto const peak = run_order(v_min(p, 6 * p)).peak;
    return static_cast<double>(*std::ranges::max_element(peak)) / (2 * p);
  };
  CHECK(share(4) == doctest::Approx(0.5));
  CHECK(share(6) == doctest::Approx(0.5));
  CHECK(share(9) == doctest::Approx(0.44).epsilon(0.02));
  CHECK(share(12) == doctest::Approx(0.42).epsilon(0.01));
  CHECK(share(16) == doctest::Approx(0.375));
}

TEST_CASE("v_min: has a smaller bubble than 1F1B") {
  for (std::uint32_t const p : {4u, 8u, 16u}) {
    auto const m = 4 * p;
    CHECK(run_order(v_min(p, m)).makespan / 2 < 3 * m + 3 * (p - 1));
  }
}
