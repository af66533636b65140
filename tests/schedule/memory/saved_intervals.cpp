// SPDX-License-Identifier: MIT
#include "cleave/schedule/memory/detail/saved_intervals.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/some_schedule.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

constexpr stage_id s0{0};
constexpr microbatch_id m0{0};

std::vector<saved_interval> stays_of(std::string const& row, pass_bytes bytes) {
  return saved_intervals({loop_placement(1), 1, {read_row(row)}}, 0, {.stages = {bytes}});
}

}  // namespace

TEST_CASE("saved_intervals: an interval lasts from F to B, or from F to I and from I to W") {
  using enum saved_kind;
  CHECK(stays_of("0F0,,0B0", {8, 3, 2}) == std::vector<saved_interval>{{saved, s0, m0, {0, 2}, 8}});
  CHECK(stays_of("0F0,,0I0,,0W0", {8, 3, 2}) ==
        std::vector<saved_interval>{{saved, s0, m0, {0, 2}, 8}, {saved_for_weights, s0, m0, {2, 4}, 3}});
  CHECK(stays_of("0F0,,0I0,,0W0", {8, 0, 0}) == std::vector<saved_interval>{{saved, s0, m0, {0, 2}, 8}});
  CHECK(stays_of("0F0", {8, 3, 2}) == std::vector<saved_interval>{{saved, s0, m0, {0, 0}, 8}});
}

TEST_CASE("saved_intervals: offloading interrupts an interval, and recomputing keeps only the input") {
  using enum saved_kind;
  CHECK(stays_of("0F0,0OFFLOAD0,,0RELOAD0,0B0", {8, 3, 2}) ==
        std::vector<saved_interval>{{saved, s0, m0, {0, 1}, 8}, {saved, s0, m0, {3, 4}, 8}});
  CHECK(stays_of("0F0,,,0RECOMPUTE0,0B0", {8, 3, 2}) ==
        std::vector<saved_interval>{
            {saved, s0, m0, {0, 0}, 6}, {input, s0, m0, {0, 4}, 2}, {saved, s0, m0, {3, 4}, 6}});
  CHECK(stays_of("0F0,,,0RECOMPUTE0,0B0", {2, 3, 8}) ==
        std::vector<saved_interval>{{input, s0, m0, {0, 4}, 2}});
}

TEST_CASE("max_saved_bytes: equals most_kept_passes for lists without compounds and split passes") {
  testing::rng random(10);
  int compared = 0;
  for (int i = 0; i < 100; ++i) {
    auto const s = testing::some_schedule(random);
    if (passes_of(s) == expected_passes::forward_alone) continue;
    bool simple = true;
    for (auto const& row : s.ranks)
      for (auto const& a : row) simple = simple && a.parts == 0 && a.kind != action_kind::input_gradient;
    if (!simple) continue;
    ++compared;
    auto const kept = most_kept_passes(s);
    auto const most = max_saved_bytes(s, {});
    for (std::size_t r = 0; r < kept.size(); ++r) REQUIRE(most[r] == kept[r].passes);
  }
  CHECK(compared > 20);
}

TEST_CASE("saved_activation_bytes: each cell sums the intervals that contain it") {
  testing::rng random(11);
  for (int i = 0; i < 60; ++i) {
    auto const s = testing::some_schedule(random);
    schedule_bytes bytes;
    for (std::uint32_t st = 0; st < s.place.stages(); ++st)
      bytes.stages.push_back({random.below(9), random.below(9), random.below(9)});
    for (std::uint32_t r = 0; r < s.ranks.size(); ++r) {
      auto const stays = saved_intervals(s, r, bytes);
      auto const cells = count_cells(s.ranks[r]);
      auto const by_cell = saved_activation_bytes(stays, cells);
      REQUIRE(by_cell.size() == cells);
      for (std::uint32_t c = 0; c < cells; ++c) {
        std::uint64_t all = 0;
        for (auto const& stay : stays)
          if (stay.alive.first <= c && c <= stay.alive.last) all += stay.bytes;
        REQUIRE(by_cell[c] == all);
      }
    }
  }
}
