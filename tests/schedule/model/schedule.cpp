// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule.hpp"

#include <doctest/doctest.h>

using namespace cleave;

TEST_CASE("count_actions: ignores idle steps and counts a compound as its parts") {
  schedule s{loop_placement(2), 1, {}};
  CHECK(count_actions(s) == 0);
  action const f{action_kind::forward, 0, stage_id{0}, microbatch_id{0}};
  s.ranks = {{{}, f}, {{action_kind::overlap, 2}, f, f}};
  CHECK(count_actions(s) == 3);
  auto copy = s;
  CHECK(copy == s);
  copy.ranks[1].pop_back();
  CHECK_FALSE(copy == s);
}
