// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/layer_layout.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("grid_text: writes a column per rank and a line per step, and marks a step") {
  std::vector const rows = {read_row("0F0,0F1,,0B0"), read_row(",1F0,1B0")};
  CHECK(grid_text(rows, {.marked_step = 2}) ==
        "        Rank 0 Rank 1\n"
        "Step 0: 0F0          \n"
        "Step 1: 0F1    1F0   \n"
        "Step 2:        1B0    <-- ERROR HERE\n"
        "Step 3: 0B0          \n");
}

TEST_CASE("grid_text: accepts more ranks than steps, and no steps") {
  std::vector const rows = {read_row("0F0"), read_row("1F0"), read_row("2F0")};
  CHECK(grid_text(rows) ==
        "        Rank 0 Rank 1 Rank 2\n"
        "Step 0: 0F0    1F0    2F0   \n");
  CHECK(grid_text(std::vector<std::vector<action>>(2)) == "        Rank 0 Rank 1\n");
}

TEST_CASE("grid_text: names columns after the given ranks and makes them as wide as their text") {
  std::vector const rows = {read_row("0WAIT_REDUCE_GRAD"), read_row("1F0")};
  CHECK(grid_text(rows, {.ranks = {rank_id{3}, rank_id{1234}}}) ==
        "        Rank 3            Rank 1234\n"
        "Step 0: 0WAIT_REDUCE_GRAD 1F0      \n");
}
