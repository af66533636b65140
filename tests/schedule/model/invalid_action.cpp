// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/invalid_action.hpp"

#include <doctest/doctest.h>

#include <string_view>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using kind = invalid_action::kind;

/// Returns the fault of a list of rank 0, with two ranks, two stages and two microbatches.
std::optional<kind> fault_of(std::string_view row) {
  schedule const s{loop_placement(2), 2, {read_row(row), {}}};
  auto const invalid = find_invalid_action(s);
  if (!invalid) return std::nullopt;
  CHECK_THROWS_AS(require_valid_actions(s), invalid_action_error);
  return invalid->what;
}

}  // namespace

TEST_CASE("find_invalid_action: finds each kind of invalid action") {
  CHECK(fault_of("0F0,,(0F1;0B0)OVERLAP_F_B,0SEND_F1,0UNSHARD") == std::nullopt);
  CHECK(fault_of("2F0") == kind::stage);
  CHECK(fault_of("0F0,1F0") == kind::other_rank);
  CHECK(fault_of("0F2") == kind::microbatch);
  CHECK(fault_of("0F") == kind::microbatch);
  CHECK(fault_of("0SEND_F0@2") == kind::peer);
}

TEST_CASE("find_invalid_action: finds a compound that its list cuts short and a missing list") {
  schedule s{loop_placement(1), 1, {read_row("(0F0;0B0)OVERLAP_F_B")}};
  s.ranks[0].pop_back();
  auto const invalid = find_invalid_action(s);
  REQUIRE(invalid);
  CHECK(invalid->what == kind::compound);
  s.ranks.clear();
  CHECK(find_invalid_action(s)->what == kind::rank_count);
}

TEST_CASE("invalid_action: the message names the rank, the position and the action") {
  schedule const s{loop_placement(1), 1, {read_row("0F0,0F7")}};
  CHECK(describe(*find_invalid_action(s)) ==
        "rank 0, action #1: '0F7' names a microbatch that does not exist");
}
