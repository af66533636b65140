// SPDX-License-Identifier: MIT
#include "cleave/schedule/lower/nominal_times.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/lower/lower.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

stage_placement const three = loop_placement(3);

std::string refusal(nominal_times const& t) {
  try {
    require_nominal_times(t, three);
  } catch (nominal_time_error const& e) {
    CHECK(e.witness == find_nominal_time_fault(t, three));
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("require_nominal_times: accepts no costs, one for all stages, or one per stage") {
  CHECK(refusal({}) == "none");
  CHECK(refusal({.costs = {{}}, .base_latency = 0}) == "none");
  CHECK(refusal({.costs = {{}, {}, {}}}) == "none");
  CHECK(refusal({.costs = {{}, {}}}) ==
        "times: 2 costs for 3 stages; give one per stage, one for all, or none");
}

TEST_CASE("require_nominal_times: rejects values that are not valid times") {
  CHECK(refusal({.costs = {{}, {.backward = -1}, {}}}) ==
        "times: each cost of stage 1 must be a time from 0 to 1e100");
  for (auto const base_latency : {-0.5, 1e101, std::numeric_limits<double>::quiet_NaN()})
    CHECK(refusal({.base_latency = base_latency}) == "times: base_latency must be a time from 0 to 1e100");
}

TEST_CASE("require_nominal_times: rejects latencies that do not fit the ranks") {
  CHECK(refusal({.latencies = {0.5}}) == "none");
  CHECK(refusal({.latencies = std::vector<double>(9, 2)}) == "none");
  CHECK(refusal({.latencies = {1, 2}}) ==
        "times: 2 latencies for 9 pairs of ranks; give one per pair, one for all, or none");
  CHECK(refusal({.latencies = {-1}}) == "times: latency #0 must be a time from 0 to 1e100");
}

TEST_CASE(
    "nominal_times_of: a pair of ranks has the latency of its link and the time of its largest message") {
  simulate_options o{.costs = {{.forward = 3}}, .base_latency = 0.5, .bytes = {{20, 40}, {60, 0}}};
  CHECK(nominal_times_of(o, three) == nominal_times{.costs = o.costs, .base_latency = 0.5});
  for (int i = 0; i < 9; ++i) o.links.push_back({1. * i, 10. * (1 + i)});
  CHECK(nominal_times_of(o, three).latencies ==
        std::vector<double>{0, 1 + 20 / 20., 2, 3 + 40 / 40., 4, 5 + 60 / 60., 6, 7, 8});
}

TEST_CASE("lower: with the latencies of links, a step takes no longer than without messages of its own") {
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b}) {
    auto const s = make_schedule(family, {3, 1, 16});
    simulate_options o{.costs = {{.forward = 13, .backward = 27}}, .links = std::vector<rank_link>(9)};
    for (auto& l : o.links) l.latency = 1'000;
    o.links[1].latency = o.links[3].latency = 200;
    auto const unsent = simulate(s, o).makespan;
    CHECK(simulate(lower(s, {.times = nominal_times_of(o, s.place)}), o).makespan == unsent);
    CHECK(simulate(lower(s), o).makespan > unsent);
  }
}
