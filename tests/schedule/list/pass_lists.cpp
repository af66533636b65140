// SPDX-License-Identifier: MIT
#include "cleave/schedule/list/pass_lists.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/list/list_passes.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/simulate/memory_over_time.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("pass_lists_of: schedules rebuilt from pass lists end no later and keep no more passes") {
  for (std::uint32_t p = 1; p <= 4; ++p)
    for (std::uint32_t const m : {p, 2 * p, 2 * p + 3})
      for (std::size_t f = 0; f < schedule_names.size(); ++f) {
        auto const family = static_cast<schedule_family>(f);
        if (family == schedule_family::forward_only) continue;
        auto const v = stages_per_rank_of(family).value_or(2);
        schedule made;
        try {
          made = make_schedule(family, {p, v, m});
        } catch (shape_error const&) {
          continue;
        }
        auto const again = schedule_of(made.place, made.microbatches, pass_lists_of(made));
        INFO(name_of(family), " ", p, " ", m);
        CHECK(testing::order_defect(again) == "");
        CHECK(simulate(again).makespan <= simulate(made).makespan);
        for (std::size_t r = 0; r < p; ++r)
          CHECK(most_kept_passes(again)[r].passes <= most_kept_passes(made)[r].passes);
      }
}

TEST_CASE("most_kept: equals the peak of memory_over_time") {
  splitmix rng(7);
  for (int round = 0; round < 200; ++round) {
    auto problem = testing::random_step(rng);
    problem.bytes.edges.clear();
    for (auto const& step : placed_steps(problem)) {
      auto const form = rng.below(2) == 0 ? backward_choice::whole : backward_choice::split;
      auto const lists = list_passes(step, {.form = form});
      REQUIRE(lists);
      auto const made = schedule_of(step.place, step.microbatches, *lists);
      auto const times = simulate(made, simulate_options_of(problem, step));
      auto const peaks = peak_bytes(memory_over_time(made, times, problem.bytes));
      for (std::size_t r = 0; r < lists->size(); ++r) CHECK(most_kept(step, (*lists)[r]) == peaks[r]);
    }
  }
}

TEST_CASE("fits: a rank may fill its memory, and no more") {
  search_problem problem{.ranks = 1, .microbatches = 2};
  problem.costs.resize(1);
  auto step = place_step(problem, loop_placement(1), 2);
  pass_lists const lists{{{0, action_kind::forward}, {0, action_kind::backward}}};
  auto const kept = most_kept(step, lists[0]);
  step.resident = {10};
  for (std::uint64_t const limit : {9u, 10u, 11u}) {
    step.memory_limit = {limit};
    CHECK(fits(step, lists) == (limit >= 10 + kept));
  }
  CHECK(kept == 1);
  step.stages[0].bytes.saved = 0;
  step.memory_limit = {10};
  CHECK(fits(step, lists));
}

TEST_CASE("schedule_of: W belongs to the oldest I without one, even next to whole backward passes") {
  using enum action_kind;
  auto const s = schedule_of(loop_placement(1), 3,
                             {{{0, forward},
                               {0, forward},
                               {0, forward},
                               {0, backward},
                               {0, input_gradient},
                               {0, input_gradient},
                               {0, weight_gradient},
                               {0, weight_gradient}}});
  CHECK(testing::rows_of(s) == std::vector<std::string>{"0F0,0F1,0F2,0B0,0I1,0I2,0W1,0W2"});
  CHECK_FALSE(find_schedule_fault(s));
}
