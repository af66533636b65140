// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/rank_stages.hpp"

#include <doctest/doctest.h>

#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("rank_stages: numbers each stage of a list once, in ascending order, however large its id") {
  auto const row = read_row("7F0,,4000000000F0,(2F1;7B0)OVERLAP_F_B");
  rank_stages const stages(row);
  REQUIRE(stages.count() == 3);
  CHECK(stages[0] == stage_id{2});
  CHECK(stages[2] == stage_id{4000000000});
  for (std::uint32_t n = 0; n < stages.count(); ++n) CHECK(stages.number(stages[n]) == n);
  CHECK(rank_stages(read_row(",,")).count() == 0);
}
