// SPDX-License-Identifier: MIT
#include "cleave/schedule/simulate/critical_path.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

schedule of_rows(std::vector<std::string> const& rows, row_contents contents = row_contents::compute_only) {
  std::vector<std::vector<action>> lists;
  for (auto const& row : rows) lists.push_back(read_row(row));
  return schedule_from_rows(lists, contents);
}

std::string path_text(schedule const& s, simulate_options const& o = {}) {
  std::string text;
  for (auto const& step : critical_path(s, simulate(s, o)))
    text += (text.empty() ? "" : " ") + action_text(step.what);
  return text;
}

}  // namespace

TEST_CASE("critical_path: goes to the other rank and back if ranks wait for each other") {
  CHECK(path_text(of_rows({"0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"})) == "0F0 1F0 1B0 1F1 1B1 0B1");
}

TEST_CASE("critical_path: contains the end of a message that came last") {
  CHECK(path_text(of_rows({"0F0,0SEND_F0,0RECV_B0,0B0", "1RECV_F0,1F0,1B0,1SEND_B0"},
                          row_contents::with_communication)) == "0F0 0SEND_F0 1F0 1B0 1SEND_B0 0B0");
}

TEST_CASE("critical_path: an action that waits for a part of a compound waits for the whole compound") {
  auto const s = of_rows({"0F0,(0F1;0B0)OVERLAP_F_B,0B1", "1F0,1B0,1F1,1B1"});
  CHECK(path_text(s) == "0F0 1F0 1B0 0B0 1F1 1B1 0B1");
  CHECK(path_text(s, {.compounds = compound_time::longest_part}) == "0F0 1F0 1B0 OVERLAP_F_B 1F1 1B1 0B1");
}

TEST_CASE("critical_path: contains the unshard actions that a pass waits for") {
  CHECK(path_text(of_rows({"0UNSHARD,1UNSHARD,0F0,1F0,1B0,0B0"}, row_contents::with_communication),
                  {.costs = {{.unshard = 4}}}) == "0UNSHARD 1UNSHARD 1F0 1B0 0B0");
}

TEST_CASE("critical_path: is empty for an empty schedule") { CHECK(critical_path({}, simulate({})).empty()); }

TEST_CASE("critical_path: leads from 0 to the makespan, and a slower pass on it delays the end") {
  testing::rng random(60);
  schedule_family const families[] = {schedule_family::looped_bfs, schedule_family::interleaved_1f1b,
                                      schedule_family::zbv, schedule_family::dual_pipe_v};
  for (int i = 0; i < 60; ++i) {
    auto s = make_schedule(families[random.below(4)], {.ranks = 3, .stages_per_rank = 2, .microbatches = 6});
    if (random.one_in(2)) s = lower(s);
    simulate_options o{.base_latency = static_cast<double>(random.below(3))};
    for (std::uint32_t n = 0; n < 6; ++n)
      o.costs.push_back({static_cast<double>(1 + random.below(4)), static_cast<double>(1 + random.below(8)),
                         static_cast<double>(1 + random.below(4)), static_cast<double>(1 + random.below(4))});
    auto const times = simulate(s, o);
    auto const path = critical_path(s, times);
    REQUIRE(!path.empty());
    CHECK(path.front().when.begin == 0);
    CHECK(path.back().when.end == times.makespan);
    double spent = 0;
    for (std::size_t n = 0; n < path.size(); ++n) {
      spent += path[n].when.end - path[n].when.begin;
      if (n > 0) CHECK(path[n].when.begin >= path[n - 1].when.end);
      bool const waits =
          n > 0 && is_receive(path[n - 1].what.kind);  // a receive is posted before its message comes
      if (n > 0 && path[n].rank == path[n - 1].rank && !waits)
        CHECK(path[n].when.begin == path[n - 1].when.end);
    }
    if (o.base_latency == 0) CHECK(spent == times.makespan);
    auto const& slow = path[random.below(path.size())].what;
    if (!is_compute(slow.kind)) continue;
    auto& cost = o.costs[index(slow.stage)];
    (slow.kind == action_kind::forward          ? cost.forward
     : slow.kind == action_kind::backward       ? cost.backward
     : slow.kind == action_kind::input_gradient ? cost.input_gradient
                                                : cost.weight_gradient) += 1;
    CHECK(simulate(s, o).makespan >= times.makespan + 1);
  }
}
