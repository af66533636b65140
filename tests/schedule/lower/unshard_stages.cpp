// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/lower.hpp"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string unsharded(std::string_view row, unshard_window window = {}) {
  return row_text(unshard_stages(read_row(row), window));
}

}  // namespace

TEST_CASE("unshard_stages: unshards ahead of use and reshards the stages that leave the window") {
  CHECK(unsharded("0F0,,4F0,4B0,0B0", {.active = 1, .lookahead = 1}) ==
        "0UNSHARD,0F0,0RESHARD,4UNSHARD,4F0,4B0,4RESHARD,0UNSHARD,0B0,0RESHARD");
  CHECK(unsharded("0F0,4F0,8F0", {.active = 2, .lookahead = 2}) ==
        "0UNSHARD,4UNSHARD,0F0,0RESHARD,8UNSHARD,4F0,4RESHARD,8F0,8RESHARD");
  CHECK(unsharded(",,") == "");
}

TEST_CASE("unshard_stages: never exceeds the active stages, and every stage that runs is unsharded") {
  for (auto const family : {schedule_family::interleaved_1f1b, schedule_family::looped_bfs,
                            schedule_family::interleaved_zero_bubble})
    for (std::uint32_t active = 1; active < 6; ++active)
      for (std::uint32_t lookahead = 1; lookahead <= active; ++lookahead)
        for (auto const& row : make_schedule(family, {2, 4, 6}).ranks) {
          std::set<stage_id> now;
          auto const added = unshard_stages(row, {active, lookahead});
          each_action(std::span(added), [&](action const& a) {
            if (a.kind == action_kind::unshard) CHECK(now.insert(a.stage).second);
            if (a.kind == action_kind::reshard) CHECK(now.erase(a.stage) == 1);
            if (is_compute(a.kind)) CHECK(now.contains(a.stage));
            CHECK(now.size() <= active);
          });
          CHECK(now.empty());
        }
}

TEST_CASE("unshard_stages: rejects a compound with more stages than may be active and names it") {
  auto const row = read_row("0F0,(0F1;3B0)OVERLAP_F_B");
  CHECK(find_window_fault(row, 1) == window_fault{"(0F1;3B0)OVERLAP_F_B", 2, 1});
  CHECK_THROWS_AS(unshard_stages(row, {.active = 1, .lookahead = 1}), window_error);
  CHECK(!find_window_fault(row, 2));
  CHECK(!find_window_fault(read_row("(0F1;0B0)OVERLAP_F_B"), 1));
}
