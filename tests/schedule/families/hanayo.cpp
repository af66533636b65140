// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/hanayo.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;
using testing::order_defect;
using testing::run_order;

TEST_CASE("hanayo: the makespan matches the closed form, and memory does not exceed that of 1F1B") {
  for (std::uint32_t const p : {1u, 2u, 4u, 8u})
    for (std::uint32_t const v : {2u, 4u, 8u})
      for (std::uint32_t const m : {p, 2 * p, 4 * p}) {
        auto const s = hanayo(p, v, m);
        CHECK(order_defect(s) == "");
        auto const run = run_order(s, {.forward = 1, .backward = 1});
        CHECK(run.makespan == 2 * m * v + 2 * (p - 1));
        for (auto const peak : run.peak) CHECK(peak <= std::size_t{p} * v);
      }
}

TEST_CASE("hanayo: rejects an odd number of stages per rank") {
  CHECK_THROWS_WITH_AS(hanayo(2, 3, 4), "Hanayo: each rank must have an even number of stages, not 3",
                       shape_error);
}
