// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/zbv.hpp"

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

static_assert(zbv(2, 4).ranks[0].size() == 24);

TEST_CASE("zbv: two ranks and four microbatches give the published lists") {
  CHECK(rows_of(zbv(2, 4)) ==
        strings{
            "0F0,0F1,0F2,3F0,3I0,3W0,3F1,3I1,3W1,0F3,0I0,0W0,3F2,3I2,3W2,0I1,0W1,3F3,3I3,3W3,0I2,0W2,0I3,0W3",
            ",1F0,2F0,1F1,2F1,2I0,2W0,1F2,1I0,1W0,2F2,2I1,2W1,1F3,1I1,1W1,2F3,2I2,2W2,1I2,2I3,1I3,1W2,2W3,"
            "1W3"});
}

TEST_CASE("zbv: with enough microbatches, no rank idles between its first and last pass") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u, 8u})
    for (std::uint32_t const m : {2 * p - 1, 2 * p, 4 * p}) {
      auto const s = zbv(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 6 * m + (p - 1));
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(run.idle_within[r] == 0);
        CHECK(run.peak[r] == 2 * p);
      }
    }
}

TEST_CASE("zbv: with fewer than 2p microbatches, it runs and idles as published") {
  for (std::uint32_t const p : {1u, 2u, 3u, 5u})
    for (std::uint32_t m = 1; m < 2 * p; ++m) CHECK(order_defect(zbv(p, m)) == "");
  CHECK(run_order(zbv(4, 4)).idle_within == std::vector<double>{6, 4, 2, 0});
}
