// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/chimera.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;
using testing::order_defect;
using testing::run_order;

TEST_CASE("chimera: runs every pass once and keeps at most as many passes as 1F1B") {
  for (std::uint32_t const p : {2u, 4u, 6u, 8u})
    for (std::uint32_t const m : {2u, p, 2 * p, 4 * p}) {
      auto const s = chimera(p, m);
      CHECK(order_defect(s) == "");
      for (auto const peak : run_order(s).peak) CHECK(peak <= p);
    }
}

TEST_CASE("chimera: with equal F and B times, the makespan is 2m + p - 2") {
  for (std::uint32_t const p : {2u, 4u, 6u, 8u, 16u})
    for (std::uint32_t const m : {p, 2 * p, 4 * p})
      CHECK(run_order(chimera(p, m), {.forward = 1, .backward = 1}).makespan == 2 * m + p - 2);
}

TEST_CASE("chimera: rejects odd numbers of ranks and of microbatches") {
  CHECK_THROWS_WITH_AS(chimera(3, 4), "Chimera: the number of ranks must be even, not 3", shape_error);
  CHECK_THROWS_AS(chimera(2, 3), shape_error);
}
