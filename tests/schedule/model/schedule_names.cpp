// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_names.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("find_schedule_family: finds every family by its exact name in any case") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    std::string lower;
    for (char const c : name_of(family)) lower += lower_case(c);
    CHECK(find_schedule_family(name_of(family)) == family);
    CHECK(find_schedule_family(lower) == family);
    CHECK(!find_schedule_family(lower + " "));
  }
  CHECK(!find_schedule_family(""));
}

TEST_CASE("schedule_family_of: the error for an unknown name gives the nearest name") {
  try {
    schedule_family_of("gpip");
    FAIL("no error");
  } catch (schedule_name_error const& e) {
    CHECK(e.witness.front() == "GPipe");
    CHECK(std::string(e.what()).starts_with("no schedule is called 'gpip'; nearest: 'GPipe'"));
  }
  CHECK_THROWS_WITH_AS(schedule_family_of("nonexistent"), "no schedule is called 'nonexistent'",
                       schedule_name_error);
  CHECK(schedule_family_of("dualpipev") == schedule_family::dual_pipe_v);
}

TEST_CASE("find_pytorch_schedule: finds PyTorch's schedules with their classes, and no others") {
  CHECK(find_pytorch_schedule("1f1b")->class_name == "Schedule1F1B");
  CHECK(!find_pytorch_schedule("PipelineScheduleMulti")->family);
  CHECK(!find_pytorch_schedule("DualPipe"));
  for (auto const& s : pytorch_schedules)
    if (s.family) CHECK(find_schedule_family(s.name) == s.family);
}
