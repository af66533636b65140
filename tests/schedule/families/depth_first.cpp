// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/interleaved_1f1b.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;
using testing::order_defect;
using testing::run_order;

TEST_CASE("depth_first: makespan and peak memory match the closed forms") {
  for (std::uint32_t const p : {1u, 2u, 4u})
    for (std::uint32_t const v : {1u, 2u, 4u}) {
      auto const m = 4 * p;
      auto const s = depth_first(p, v, m);
      CHECK(order_defect(s) == "");
      CHECK(run_order(s).makespan == 3 * m * v + 3 * (p - 1));
      CHECK(run_order(s).peak[0] == std::min(v * m, (v - 1) * p + 2 * (p - 1) + 1));
    }
}

TEST_CASE("depth_first: fewer microbatches than ranks are one group") {
  for (std::uint32_t p = 2; p <= 6; ++p)
    for (std::uint32_t m = 1; m < p; ++m)
      for (std::uint32_t v = 1; v <= 4; ++v) {
        auto const s = depth_first(p, v, m);
        CHECK(order_defect(s) == "");
        CHECK(run_order(s).makespan == 3 * m + 3 * (p * v - 1));
      }
}

TEST_CASE("depth_first: rejects microbatches that are not a multiple of the ranks") {
  CHECK_THROWS_WITH_AS(depth_first(4, 2, 6),
                       "depth-first: the number of microbatches must be a multiple of 4, not 6; a multiple "
                       "of the number of ranks always fits",
                       shape_error);
}
