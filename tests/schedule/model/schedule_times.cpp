// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_times.hpp"

#include <doctest/doctest.h>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("span_bubble: is the idle part of a rank's span, and bubble_rate that of the time of all ranks") {
  schedule_times t;
  t.makespan = 10;
  t.busy = {6, 4};
  t.first = {0, 3};
  t.last = {10, 8};
  CHECK(span_bubble(t, 0) == 4);
  CHECK(span_bubble(t, 1) == 1);
  CHECK(bubble_rate(t) == 0.5);
  CHECK(bubble_rate({}) == 0);
}
