// SPDX-License-Identifier: MIT
#include "cleave/run/executor/rank_runtime.hpp"

#include <doctest/doctest.h>

using namespace cleave;

using namespace cleave::detail;

namespace {

void check_change(stage_placement const& other, placement_change const& wanted, char const* sentence) {
  auto const c = find_placement_change(wave_placement(2), other);
  REQUIRE(c);
  CHECK(*c == wanted);
  CHECK_THROWS_WITH_AS(throw placement_change_error(*c), sentence, error);
}

}  // namespace

TEST_CASE("find_placement_change: names the first difference and the first plan's value") {
  using enum placement_change::kind;
  check_change(wave_placement(3), {rank_count, 3, 2},
               "another plan: it has 3 ranks, but the first plan 2; all plans of a run must have the same "
               "stages on the same ranks");
  check_change(wave_placement(2, 1), {stage_count, 2, 4},
               "another plan: it has 2 stages, but the first plan 4; all plans of a run must have the same "
               "stages on the same ranks");
  check_change(loop_placement(2, 2), {moved, 0, 1, stage_id{2}},
               "another plan: it has stage 2 on rank 0, but the first plan on rank 1; all plans of a run "
               "must have the same stages on the same ranks");
}

TEST_CASE("find_placement_change: ignores edges if all stages are on the same ranks") {
  auto const first = wave_placement(2);
  CHECK_FALSE(find_placement_change(first, first));
  auto other = first;
  other.edges.clear();
  CHECK_FALSE(find_placement_change(first, other));
  other.rank_of.back() = rank_id{1};
  CHECK(find_placement_change(first, other));
}
