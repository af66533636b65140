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
using testing::run_order;

TEST_CASE("v_block_order: free steps of a block hold weight gradients, oldest first") {
  auto const row = v_block_order({0, 1, 2, 3}, 0, 1, 2);
  CHECK(row_text(row) == "0F0,1F0,1I0,0I0,1W0,0W0,0F1,1F1,1I1,0I1,1W1,0W1");
}

TEST_CASE("v_block_order: a long block still starts a microbatch every six steps") {
  auto const row = v_block_order({0, 5, 8, 13}, 0, 1, 3);
  CHECK(row_text(row) == "0F0,1F0,0F1,1I0,1W0,1F1,0F2,0I0,1I1,0W0,1W1,1F2,0I1,1I2,0W1,1W2,0I2,0W2");
}
