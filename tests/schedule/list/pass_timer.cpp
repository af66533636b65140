// SPDX-License-Identifier: MIT
#include "cleave/schedule/list/pass_timer.hpp"

#include <doctest/doctest.h>

#include <cstdint>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/list_passes.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/random_step.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

list_rule random_rule(splitmix& rng) {
  return {.form = rng.below(2) == 0 ? backward_choice::whole : backward_choice::split,
          .first = rng.below(2) == 0 ? list_preference::gradients : list_preference::forwards,
          .weights = rng.below(2) == 0 ? weight_timing::when_idle : weight_timing::at_once};
}

}  // namespace

TEST_CASE("pass_timer: begin times and makespan equal those of simulate, even with links") {
  splitmix rng(5);
  for (int round = 0; round < 300; ++round) {
    auto const problem = testing::random_step(rng);
    for (auto const& step : placed_steps(problem)) {
      auto const lists = list_passes(step, random_rule(rng));
      REQUIRE(lists);
      auto const times =
          simulate(schedule_of(step.place, step.microbatches, *lists), simulate_options_of(problem, step));
      pass_timer timer(step);
      CHECK(timer.makespan(*lists) == doctest::Approx(times.makespan));
      CHECK(timer.makespan(*lists) == doctest::Approx(times.makespan));
      for (std::uint32_t r = 0; r < lists->size(); ++r)
        for (std::uint32_t i = 0; i < (*lists)[r].size(); ++i)
          CHECK(timer.begin_of({r, i}) == doctest::Approx(times.spans[r][i].begin));
    }
  }
}

TEST_CASE("pass_timer: critical passes follow each other without a gap from 0 to the makespan") {
  splitmix rng(6);
  for (int round = 0; round < 200; ++round) {
    auto problem = testing::random_step(rng);
    problem.base_latency = 0;
    problem.links.clear();
    for (auto const& step : placed_steps(problem)) {
      auto const lists = list_passes(step, random_rule(rng));
      REQUIRE(lists);
      pass_timer timer(step);
      double until = timer.makespan(*lists);
      for (auto const at : timer.critical_passes(*lists)) {
        auto const& p = (*lists)[at.rank][at.position];
        CHECK(timer.begin_of(at) + step.stages[p.stage].cost.of(p.kind) == doctest::Approx(until));
        until = timer.begin_of(at);
      }
      CHECK(until == 0);
    }
  }
}

TEST_CASE("pass_timer: a deadlock has the makespan no_end") {
  auto const step = place_step({.ranks = 2, .microbatches = 1, .costs = {{}, {}}}, loop_placement(2), 1);
  using enum action_kind;
  pass_timer timer(step);
  CHECK(timer.makespan({{{0, forward}, {0, backward}}, {{1, forward}, {1, backward}}}) == 6);
  CHECK(timer.makespan({{{0, backward}, {0, forward}}, {{1, forward}, {1, backward}}}) == no_end);
  CHECK(timer.makespan({{{0, forward}, {0, backward}}, {{1, backward}, {1, forward}}}) == no_end);
  CHECK(timer.makespan({{{0, forward}, {0, weight_gradient}, {0, input_gradient}},
                        {{1, forward}, {1, backward}}}) == no_end);
}
