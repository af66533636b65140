// SPDX-License-Identifier: MIT
#include "cleave/schedule.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cleave/draw.hpp"
#include "cleave/formats/cost_table.hpp"
#include "cleave/formats/schedule_json.hpp"
#include "cleave/formats/timed_schedule.hpp"
#include "cleave/schedule_search.hpp"
#include "support/allocation_faults.hpp"
#include "support/random_schedule.hpp"

using namespace cleave;
using testing::check_each_failure;

namespace {

/// Checks a function of schedules, which it must not change.
template <class F>
void check_on(schedule const& s, F f) {
  auto const before = s;
  check_each_failure([&] { return f(s); }, [&] { return s == before; });
}

search_problem small_problem() {
  search_problem p{.ranks = 2, .microbatches = 3};
  for (int i = 0; i < 3; ++i) p.costs.push_back({1.0 + i, 2, 1, 1, 0.5});
  return p;
}

}  // namespace

TEST_CASE("make_schedule, lower and verify: each allocation that fails is told") {
  for (std::size_t i = 0; i < schedule_names.size(); ++i) {
    CAPTURE(schedule_names[i]);
    auto const family = static_cast<schedule_family>(i);
    check_each_failure([&] { return testing::family_schedule(family, 2, 4); });
    auto const s = testing::family_schedule(family, 2, 4);
    check_on(s, [](auto const& each) { return schedule_faults(each).size(); });
    check_on(s, [](auto const& each) { return lower(each); });
  }
}

TEST_CASE("schedules with communication: each allocation that fails is told") {
  auto const s = lower(one_f_one_b(2, 3));
  check_on(s, [](auto const& each) { return find_deadlock(each).has_value(); });
  check_on(s, [](auto const& each) { return fix_deadlock(each).order.ranks; });
  check_on(s, [](auto const& each) { return detail::csv_text(each.ranks); });
  auto const text = detail::csv_text(s.ranks);
  check_each_failure([&] { return read_schedule_csv(text, row_contents::with_communication); });
  check_on(s, [](auto const& each) { return call_lines(rank_calls(each, rank_id{1})); });
}

TEST_CASE("simulate and what is drawn of it: each allocation that fails is told") {
  auto const s = zbv(2, 4);
  check_on(s, [](auto const& each) { return simulate(each); });
  auto const times = simulate(s);
  schedule_bytes const bytes{.stages = {pass_bytes{}}, .edges = {edge_bytes{16, 16}}};
  check_on(s, [&](auto const& each) { return critical_path(each, times).size(); });
  check_on(s, [&](auto const& each) { return peak_bytes(memory_over_time(each, times)); });
  check_on(s, [&](auto const& each) { return plan_memory(each, bytes).ranks.size(); });
  check_on(s, [](auto const& each) { return step_rows(each, simulate_steps(each)); });
  timed_schedule const drawn{.name = "a step", .order = s, .times = times};
  check_each_failure([&] { return schedule_svg(drawn); });
  check_each_failure([&] { return schedule_page(drawn); });
  check_each_failure([&] { return schedule_trace(drawn); });
  check_each_failure([&] { return schedule_json(drawn); });
  auto const json = schedule_json(drawn);
  check_each_failure([&] { return read_schedule_json(json); });
  std::string const costs = "stage,F,B\n0,1,2\n1,1.5,3\n";
  check_each_failure([&] { return read_costs(costs).stages.size(); });
}

TEST_CASE("search for schedules: each allocation that fails is told") {
  auto const problem = small_problem();
  auto const kept = [&] { return problem == small_problem(); };
  check_each_failure([&] { return search_schedule(problem, {.effort = 200}).order; }, kept);
  check_each_failure([&] { return find_exact_schedule(problem, {.most_states = 2'000}).has_value(); }, kept);
}
