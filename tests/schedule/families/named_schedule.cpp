// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/named_schedule.hpp"

#include <doctest/doctest.h>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("named_schedule: uses the usual number of stages per rank unless one is given") {
  CHECK(named_schedule("gpipe", 2, 4) == gpipe(2, 4));
  CHECK(named_schedule("Interleaved1F1B", 2, 4) == interleaved_1f1b(2, 2, 4));
  CHECK(named_schedule("Interleaved1F1B", 2, 4, 3) == interleaved_1f1b(2, 3, 4));
  CHECK(named_schedule("ForwardOnly", 2, 4).place.stages() == 2);
}

TEST_CASE("named_schedule: rejects unknown names and stages per rank that the schedule does not allow") {
  CHECK_THROWS_WITH_AS((void)named_schedule("LoopedBFS", 2, 4, 1),
                       "LoopedBFS: each rank must have 2 stages, not 1", shape_error);
  CHECK_THROWS_AS((void)named_schedule("GPipe", 2, 4, 2), shape_error);
  CHECK_THROWS_AS((void)named_schedule("Loped", 2, 4), schedule_name_error);
}
