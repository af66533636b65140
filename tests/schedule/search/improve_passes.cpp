// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/detail/improve_passes.hpp"

#include <doctest/doctest.h>

#include "cleave/core/random.hpp"
#include "cleave/schedule/search/detail/schedule_candidates.hpp"
#include "cleave/schedule/search/step_bounds.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("improve_passes: never makes lists slower, and keeps the memory limits and the backward form") {
  splitmix rng(41);
  int faster = 0;
  for (int round = 0; round < 60; ++round) {
    auto problem = testing::random_step(rng);
    problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    for (auto const& step : placed_steps(problem)) {
      if (find_byte_shortage(step, backward_choice::whole)) continue;
      auto const lists = one_at_a_time(step);
      pass_timer timer(step);
      auto const before = timer.makespan(lists);
      for (auto const form : {backward_choice::whole, backward_choice::either}) {
        auto const better = improve_passes(step, lists, {.seed = rng.next(), .effort = 50'000, .form = form});
        CHECK(timer.makespan(better.lists) == better.makespan);
        CHECK(better.makespan <= before);
        CHECK(better.effort <= 50'000);
        CHECK(fits(step, better.lists));
        CHECK(testing::order_defect(schedule_of(step.place, step.microbatches, better.lists)) == "");
        bool has_halves = false;
        for (auto const& list : better.lists)
          for (auto const& p : list) has_halves = has_halves || p.kind == action_kind::weight_gradient;
        CHECK_FALSE((form == backward_choice::whole && has_halves));
        faster += better.makespan < before;
      }
    }
  }
  CHECK(faster > 40);
}

TEST_CASE("improve_passes: leaves lists unchanged that reach the target") {
  auto const step = place_step({.ranks = 2, .microbatches = 3, .costs = {{}, {}}}, loop_placement(2), 3);
  auto const lists = one_at_a_time(step);
  auto const same = improve_passes(step, lists, {}, 18);
  CHECK(same.lists == lists);
  CHECK(same.makespan == 18);
  CHECK(improve_passes(step, lists, {.form = backward_choice::whole}, 12).makespan == 12);
}
