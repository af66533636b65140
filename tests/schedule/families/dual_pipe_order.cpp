// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/dual_pipe.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/model/action.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("dual_pipe_order: on a middle rank, the first pair of passes does not overlap") {
  auto const row =
      dual_pipe_order({.near_stage = 1, .far_stage = 2, .inward = 0, .outward = 2, .microbatches = 3});
  CHECK(row_text(row) == "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,2B1,1B1,2I2,1I2,2W2,1W2");
}

TEST_CASE(
    "dual_pipe_order: an outer rank starts with forward passes and ends with deferred weight gradients") {
  auto const row =
      dual_pipe_order({.near_stage = 0, .far_stage = 3, .inward = 1, .outward = 1, .microbatches = 4});
  CHECK(row_text(row) ==
        "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,3B2,(3F3;0B1)OVERLAP_F_B,3B3,"
        "0I2,0W2,"
        "0I3,0W3");
}
