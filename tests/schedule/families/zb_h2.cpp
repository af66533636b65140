// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/v_schedules.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::order_defect;
using testing::rows_of;
using testing::run_order;
using strings = std::vector<std::string>;

static_assert(zb_h2(2, 4).ranks[0].size() == 12);

TEST_CASE("zb_h2: no rank idles between its first and last pass, and each keeps 2p - 1 passes") {
  for (std::uint32_t const p : {2u, 3u, 4u, 5u, 6u, 8u})
    for (std::uint32_t const m : {2 * p - 1, 2 * p, 3 * p + 1}) {
      auto const s = zb_h2(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 3 * m + p - 1);
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(run.idle_within[r] == 0);
        CHECK(run.peak[r] == 2 * p - 1);
      }
    }
}

TEST_CASE("zb_h2: runs every pass once with fewer than 2p microbatches") {
  for (std::uint32_t const p : {1u, 2u, 4u, 7u})
    for (std::uint32_t m = 1; m < 2 * p; ++m) CHECK(order_defect(zb_h2(p, m)) == "");
}
