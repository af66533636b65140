// SPDX-License-Identifier: MIT
#include "cleave/formats/timed_schedule.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/schedule/lower/lower.hpp"
#include "support/timed_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bars_of: each pass is one bar, and bars of a rank overlap only in different lanes") {
  for (auto const& t : testing::timed_orders()) {
    auto const bars = bars_of(t.order, t.times);
    std::size_t passes = 0;
    for (auto const& row : t.order.ranks)
      each_action(row, [&](action const& a) { passes += is_compute(a.kind); });
    CHECK(bars.size() == passes);
    std::vector<double> busy(t.order.ranks.size());
    for (std::size_t i = 0; i < bars.size(); ++i) {
      auto const& b = bars[i];
      CHECK(t.order.ranks[index(b.rank)][b.position] == b.what);
      CHECK(b.begin < b.end);
      if (b.lane == 0) busy[index(b.rank)] += b.end - b.begin;
      if (i > 0 && bars[i - 1].rank == b.rank && b.lane == 0) CHECK(b.begin >= bars[i - 1].end - 1e-9);
      if (b.lane > 0) CHECK(b.begin == bars[i - 1].begin);
    }
    CHECK(bars.empty() == (passes == 0));
  }
}

TEST_CASE("count_messages: a schedule has as many messages before lowering as after") {
  for (auto const family : {schedule_family::gpipe, schedule_family::zbv, schedule_family::interleaved_1f1b,
                            schedule_family::forward_only}) {
    auto const s = make_schedule(family, {3, stages_per_rank_of(family).value_or(2), 6});
    std::uint64_t sends = 0;
    for (auto const& row : lower(s).ranks)
      for (action const& a : row) sends += is_send(a.kind);
    CHECK(count_messages(s) == sends);
    CHECK(count_messages(lower(s)) == sends);
  }
  CHECK(count_messages(make_schedule(schedule_family::gpipe, {1, 1, 5})) == 0);
}

TEST_CASE("local_numbers: numbers the stages of each rank upwards from 0") {
  CHECK(local_numbers(wave_placement(3)) == std::vector<std::uint32_t>{0, 0, 0, 1, 1, 1});
  CHECK(local_numbers(loop_placement(2, 3)) == std::vector<std::uint32_t>{0, 0, 1, 1, 2, 2});
  CHECK(local_numbers({}).empty());
}

TEST_CASE("timed_schedule: texts of times and memory have their units") {
  testing::timed_order const t(make_schedule(schedule_family::gpipe, {2, 1, 2}));
  auto shown = t.shown();
  CHECK(time_text(shown, 1.5) == "1.5");
  CHECK(memory_text(shown, 1) == "1\u00a0pass");
  CHECK(memory_text(shown, 2) == "2\u00a0passes");
  shown.time_unit = "ms";
  shown.memory_unit = timed_schedule::unit::bytes;
  CHECK(time_text(shown, 1.5) == "1.5\u00a0ms");
  CHECK(memory_text(shown, 2048) == "2\u00a0KiB");
  CHECK(most_memory(t.memory[0]) == 2);
  CHECK(most_memory({}) == 0);
}
