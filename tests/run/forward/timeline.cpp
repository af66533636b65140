// SPDX-License-Identifier: MIT
#include "cleave/run/forward/forward.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("stage_times: sums times by stage and activity") {
  constexpr stage_id s0{0}, s1{1}, s9{9};
  constexpr microbatch_id m0{0}, m1{1};
  std::vector<interval> const timeline{
      {s0, m0, activity::receive, 0, 1},   {s0, m0, activity::forward, 1, 11},
      {s0, m0, activity::send, 11, 111},   {s0, m1, activity::forward, 111, 1111},
      {s1, m0, activity::receive, 0, 500}, {s9, m0, activity::forward, 0, 7}};
  auto const times = stage_times(timeline, 3);
  CHECK(times == std::vector<stage_time>{{1, 1010, 100}, {500, 0, 0}, {0, 0, 0}});
  CHECK(stage_times({}, 0).empty());
}

TEST_CASE("idle_fraction: is the share of the run in which stages do not compute") {
  std::vector<interval> const timeline = {{stage_id{0}, microbatch_id{0}, activity::forward, 0, 60},
                                          {stage_id{1}, microbatch_id{0}, activity::receive, 0, 60},
                                          {stage_id{1}, microbatch_id{0}, activity::forward, 60, 100}};
  CHECK(idle_fraction(timeline, 2) == doctest::Approx(0.5));
  CHECK(idle_fraction({}, 2) == 0);
  CHECK(timeline_end(timeline) == 100);
}
