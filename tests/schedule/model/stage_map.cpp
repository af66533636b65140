// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/stage_map.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

std::string refusal(std::vector<stage_on_rank> const& map, std::uint32_t ranks) {
  try {
    place_stages(map, ranks);
  } catch (stage_map_error const& e) {
    CHECK(e.witness == find_stage_map_fault(map, ranks));
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("place_stages: accepts stages in any order and connects them to a chain") {
  CHECK(place_stages(std::vector<stage_on_rank>{{1, 1}, {0, 0}, {3, 0}, {2, 1}}, 2) == wave_placement(2));
  CHECK(place_stages({}, 2) == stage_placement{2, {}, {}});
}

TEST_CASE("place_stages: rejects unknown and repeated stages and unknown ranks, and names the entry") {
  CHECK(refusal({{0, 0}, {2, 1}}, 2) ==
        "map of stages: entry #1 puts stage 2 on rank 1, but there are 2 stages; number them from 0 without "
        "a gap");
  CHECK(refusal({{-1, 0}}, 2).find("puts stage -1 on rank 0, but there are 1 stages") != std::string::npos);
  CHECK(
      refusal({{0, 0}, {1, 1}, {0, 1}}, 2) ==
      "map of stages: entry #2 puts stage 0 on rank 1, but an earlier entry has that stage; name each once");
  CHECK(refusal({{0, 0}, {1, 2}}, 2) ==
        "map of stages: entry #1 puts stage 1 on rank 2, but there are 2 ranks; number them from 0");
  CHECK(refusal({{0, -1}}, 2).find("on rank -1, but there are 2 ranks") != std::string::npos);
}
