// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/detail/rank_order.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("rank_order: take returns the actions as they were added, with idle steps and compounds") {
  rank_order order(0);
  order.forward(0, 1);
  order.idle(2);
  order.overlap(0, 2, 3, 1);
  order.backward(3, 2);
  order.input_gradient(3, 3);
  order.weight_gradient(3, 3);
  CHECK(order.size() == 9);
  CHECK(order.take() == read_row("0F1,,,(0F2;3B1)OVERLAP_F_B,3B2,3I3,3W3"));
}
