// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/generate.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cleave/core/error.hpp"
#include "support/run_order.hpp"

using namespace cleave;

TEST_CASE(
    "make_schedule: each family makes a schedule that runs or rejects the shape, for all small shapes") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const passes =
        family == schedule_family::forward_only ? testing::passes::forward_alone : testing::passes::both;
    std::size_t made = 0;
    for (std::uint32_t p = 1; p <= 4; ++p)
      for (std::uint32_t v = 1; v <= 4; ++v)
        for (std::uint32_t m = 1; m <= 9; ++m) {
          CAPTURE(name_of(family));
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(m);
          try {
            auto const s = make_schedule(family, {p, v, m});
            CHECK(s.place.ranks == p);
            CHECK(s.place.stages() == p * v);
            CHECK(testing::order_defect(s, passes) == "");
            ++made;
          } catch (shape_error const&) {  // some shapes are not taken
          }
        }
    CHECK(made > 0);
  }
}

TEST_CASE("make_schedule: rejects a wrong number of stages per rank and names the right one") {
  CHECK_THROWS_WITH_AS(make_schedule(schedule_family::zbv, {2, 3, 4}),
                       "ZBVZeroBubble: each rank must have 2 stages, not 3", shape_error);
  CHECK_THROWS_WITH_AS(make_schedule(schedule_family::gpipe, {2, 2, 4}),
                       "GPipe: each rank must have 1 stage, not 2", shape_error);
  CHECK(!stages_per_rank_of(schedule_family::looped_bfs));
}

TEST_CASE("make_schedule: every family rejects zero and huge counts before it allocates") {
  for (std::size_t f = 0; f < schedule_names.size(); ++f) {
    auto const family = static_cast<schedule_family>(f);
    auto const v = stages_per_rank_of(family).value_or(2);
    CAPTURE(name_of(family));
    CHECK_THROWS_AS(make_schedule(family, {0, v, 1}), cleave::error);
    CHECK_THROWS_AS(make_schedule(family, {1, v, 0}), cleave::error);
    CHECK_THROWS_AS(make_schedule(family, {0x80000000, v, 0x80000000}), cleave::error);
    CHECK_THROWS_AS(make_schedule(family, {0xffffffff, v, 0xffffffff}), cleave::error);
  }
}
