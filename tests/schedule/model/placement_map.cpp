// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/placement.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("map_stages: full loops and full waves equal loop_placement and wave_placement") {
  CHECK(map_stages(map_style::loop, 3, 6) == loop_placement(3, 2));
  CHECK(map_stages(map_style::v, 3, 9) == wave_placement(3, 3));
}

TEST_CASE("map_stages: a loop may end at any rank") {
  auto const stages = stages_by_rank(map_stages(map_style::loop, 3, 4));
  CHECK(stages ==
        std::vector<std::vector<stage_id>>{{stage_id{0}, stage_id{3}}, {stage_id{1}}, {stage_id{2}}});
  CHECK(stages_by_rank(map_stages(map_style::loop, 3, 1))[2].empty());
}

TEST_CASE("map_stages: rejects an incomplete wave, an unknown name and zero ranks") {
  CHECK_THROWS_WITH_AS(map_stages(map_style::v, 2, 5),
                       "map 'v': the number of stages must be a multiple of 2, the number of ranks, not 5",
                       shape_error);
  CHECK_THROWS_AS(map_stages(map_style::loop, 0, 5), schedule_count_error);
  CHECK(map_style_of("v") == map_style::v);
  CHECK_THROWS_WITH_AS(map_style_of("zigzag"), "no map of stages is called 'zigzag'; use 'loop' or 'v'",
                       map_style_error);
}
