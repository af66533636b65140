// SPDX-License-Identifier: MIT
#include "cleave/schedule/text/schedule_csv.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "cleave/schedule/families/generate.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

std::vector<std::vector<action>> rows_from(std::vector<std::string_view> const& texts) {
  std::vector<std::vector<action>> rows;
  for (auto const text : texts) rows.push_back(read_row(text, rows.size()));
  return rows;
}

std::optional<row_fault> fault_of(std::vector<std::string_view> const& texts, row_counts const& counts = {},
                                  row_contents contents = row_contents::compute_only) {
  return find_row_fault(rows_from(texts), contents, counts);
}

}  // namespace

TEST_CASE("schedule_from_rows: restores the schedule of any family of one chain from its lists") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    if (family == schedule_family::dual_pipe || family == schedule_family::chimera) continue;
    auto const s = make_schedule(family, {2, stages_per_rank_of(family).value_or(2), 4});
    CHECK(schedule_from_rows(s.ranks) == s);
    CHECK(schedule_from_rows(s.ranks, row_contents::compute_only, {2, s.place.stages(), 4}) == s);
  }
}

TEST_CASE("schedule_from_rows: a stage is on the rank that lists its actions, messages included") {
  auto const s =
      schedule_from_rows(rows_from({"1RECV_F0,1F0", "0F0,0SEND_F0"}), row_contents::with_communication);
  CHECK(s.place.rank_of == std::vector{rank_id{1}, rank_id{0}});
  CHECK(s.microbatches == 1);
}

TEST_CASE("find_row_fault: finds each fault with its place") {
  using enum row_fault::kind;
  auto const lowered = row_contents::with_communication;
  CHECK(fault_of({"0F0"}, {.ranks = 2}) == row_fault{rank_count, 0, 0, "", 1, 2});
  CHECK(fault_of({}) == row_fault{rank_count, 0, 0, "", 0, 0});
  CHECK(fault_of({"0F0,0SEND_F0"}) == row_fault{communication, 0, 1, "0SEND_F0"});
  CHECK(fault_of({"0F0", "1F0,"}, {}, lowered) == row_fault{idle, 1, 1, ""});
  CHECK(fault_of({"0F"}) == row_fault{microbatch_missing, 0, 0, "0F"});
  CHECK(fault_of({",(0F0;0B3)OVERLAP_F_B"}, {.microbatches = 3}) ==
        row_fault{microbatch_out_of_range, 0, 1, "(0F0;0B3)OVERLAP_F_B", 3, 3});
  CHECK(fault_of({"0F0,2F0"}, {.stages = 2}) == row_fault{stage_out_of_range, 0, 1, "2F0", 2, 2});
  CHECK(fault_of({"4000000000F0"})->what == stage_out_of_range);
  CHECK(fault_of({"0F0", "1F0,0B0"}) == row_fault{stage_on_two_ranks, 1, 1, "0B0", 0, 0});
  CHECK(fault_of({"0F0,2F0,0B0"}) == row_fault{stage_on_no_rank, 0, 0, "", 1, 0});
  CHECK(fault_of({"0F0"}, {.stages = 2})->got == 1);
  CHECK(!fault_of({"0F0,0B0", ""}));
}

TEST_CASE("row_error: the message names the row, the column, the action and the conflict") {
  CHECK_THROWS_WITH_AS(schedule_from_rows(rows_from({"0F0", "1F0,0B0"})),
                       "schedule: row #1, column #1: '0B0' names stage 0, which is on rank 0 too", row_error);
}
