// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/dual_pipe.hpp"

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

static_assert(dual_pipe_v(2, 4).ranks[0].size() == 16 + 6);

TEST_CASE("dual_pipe_v: two ranks and four microbatches give the published lists") {
  CHECK(rows_of(dual_pipe_v(2, 4)) == strings{"0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)"
                                              "OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,"
                                              "0I2,0W2,0I3,0W3",
                                              "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_"
                                              "F_B,(2F3;1B1)OVERLAP_F_B,2B2,1B2,2I3,"
                                              "1I3,2W3,1W3"});
}

TEST_CASE("dual_pipe_v: makespan, bubble and memory match the closed forms") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u})
    for (std::uint32_t const m : {2 * p, 3 * p, 4 * p}) {
      auto const s = dual_pipe_v(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 6 * m + 2 * (p - 1));
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(run.idle_within[r] == 2 * (p - 1) - r);
        CHECK(run.peak[r] == 2 * p + 1);
      }
    }
}

TEST_CASE("dual_pipe_v: rejects fewer microbatches than stages") {
  CHECK_THROWS_WITH_AS(dual_pipe_v(4, 7), "DualPipeV: there must be 8 microbatches or more, not 7",
                       shape_error);
}
