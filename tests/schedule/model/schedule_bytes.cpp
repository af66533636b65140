// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/stage_cost.hpp"

#include <doctest/doctest.h>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE(
    "schedule_bytes: one entry holds for all stages or edges, and no entry counts each pass as one byte") {
  schedule_bytes const each{.stages = {{1, 2, 3}, {4, 5, 6}}, .edges = {{7, 8}}};
  CHECK(each.of_stage(1) == pass_bytes{4, 5, 6});
  CHECK(each.of_edge(5) == edge_bytes{7, 8});
  CHECK(schedule_bytes{}.of_stage(3) == pass_bytes{1, 1, 0});
  CHECK(schedule_bytes{}.of_edge(3) == edge_bytes{0, 0});
}

TEST_CASE("find_schedule_bytes_fault: finds wrong counts and sizes that are too large, with both numbers") {
  using enum schedule_bytes_fault::kind;
  auto const place = loop_placement(3);
  CHECK(!find_schedule_bytes_fault({}, place, 100));
  CHECK(find_schedule_bytes_fault({.stages = {{}, {}}}, place, 1) == schedule_bytes_fault{stage_count, 2, 3});
  CHECK(find_schedule_bytes_fault({.edges = {{}, {}, {}}}, place, 1) ==
        schedule_bytes_fault{edge_count, 3, 2});
  auto const most = std::uint64_t{1} << 60;
  CHECK(!find_schedule_bytes_fault({.edges = {{most, 0}}}, place, 4));
  CHECK(find_schedule_bytes_fault({.edges = {{0, most + 1}}}, place, 4) ==
        schedule_bytes_fault{too_many, most + 1, most});
  CHECK(find_schedule_bytes_fault({.stages = {{.input = most + 1}}}, place, 4)->what == too_many);
  CHECK(std::string(schedule_bytes_error({stage_count, 2, 3}).what()) ==
        "bytes: 2 byte counts for 3 stages; give one per stage, one for all, or none");
}
