// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/exact_schedule.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/search/step_bounds.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Simulates every combination of orders of all ranks, with microbatches in any order.
class all_orders {
 public:
  all_orders(search_problem const& problem, placed_step const& step, bool split)
      : step_(step), times_(simulate_options_of(problem, step)) {
    made_ = {step.place, step.microbatches, std::vector<std::vector<action>>(step.locals.size())};
    for (std::uint32_t r = 0; r < step.locals.size(); ++r)
      for (auto const s : step.locals[r])
        for (std::uint32_t k = 0; k < step.microbatches; ++k) {
          auto const add = [&](action_kind kind) {
            made_.ranks[r].push_back({kind, 0, stage_id{s}, microbatch_id{k}, no_stage});
          };
          add(action_kind::forward);
          if (!split) add(action_kind::backward);
          if (split) add(action_kind::input_gradient), add(action_kind::weight_gradient);
        }
    for (auto& row : made_.ranks) std::ranges::sort(row, is_before);
  }

  double best() {
    look(0);
    return best_;
  }

 private:
  static bool is_before(action const& a, action const& b) {
    return std::tuple(a.stage, a.microbatch, a.kind) < std::tuple(b.stage, b.microbatch, b.kind);
  }
  bool is_in_order(std::vector<action> const& row) const {
    for (std::size_t i = 0; i < row.size(); ++i)
      for (std::size_t j = i + 1; j < row.size(); ++j)
        if (row[i].stage == row[j].stage && row[i].microbatch == row[j].microbatch &&
            row[i].kind > row[j].kind)
          return false;
    return true;
  }
  void look(std::size_t rank) {
    if (rank == made_.ranks.size()) {
      if (!find_simulated_deadlock(made_, times_)) best_ = std::min(best_, simulate(made_, times_).makespan);
      return;
    }
    auto& row = made_.ranks[rank];
    do {
      if (!is_in_order(row)) continue;
      std::vector<listed_pass> list;
      for (auto const& a : row) list.push_back({index(a.stage), a.kind});
      if (most_kept(step_, list) <= step_.room(rank)) look(rank + 1);
    } while (std::ranges::next_permutation(row, is_before).found);
  }

  placed_step const& step_;
  simulate_options times_;
  schedule made_;
  double best_ = no_end;
};

}  // namespace

TEST_CASE("exact_passes: finds the best makespan of all orders within the memory limit") {
  splitmix rng(14);
  int capped = 0;
  for (int round = 0; round < 60; ++round) {
    bool const split = rng.below(3) == 0;
    auto problem = testing::random_step(rng, {2, split ? 1u : 2u, split ? 2u : 3u});
    auto const passes = problem.costs.size() / problem.ranks * problem.microbatches * (split ? 3 : 2);
    if (passes > 6) continue;
    problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    for (auto const& step : placed_steps(problem)) {
      auto const best = all_orders(problem, step, split).best();
      auto const found =
          exact_passes(step, no_end, {.form = split ? backward_choice::split : backward_choice::whole});
      CHECK(found.is_proved);
      REQUIRE(found.lists.has_value() == (best < no_end));
      if (!found.lists) continue;
      ++capped;
      CHECK(pass_timer(step).makespan(*found.lists) == doctest::Approx(best));
      CHECK(fits(step, *found.lists));
      CHECK(testing::order_defect(schedule_of(step.place, step.microbatches, *found.lists)) == "");
    }
  }
  CHECK(capped > 20);
}

TEST_CASE("exact_passes: backward_choice::either is at least as good as whole and split") {
  splitmix rng(15);
  for (int round = 0; round < 60; ++round) {
    auto problem = testing::random_step(rng, {2, 1, 3});
    problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    for (auto const& step : placed_steps(problem)) {
      auto const best = [&](backward_choice form) {
        auto const found = exact_passes(step, no_end, {.form = form});
        return found.lists ? pass_timer(step).makespan(*found.lists) : no_end;
      };
      auto const free = best(backward_choice::either);
      CHECK(free <= best(backward_choice::whole) + 1e-9);
      CHECK(free <= best(backward_choice::split) + 1e-9);
      if (free < no_end) CHECK(bounds_of(step).best() <= free + 1e-9);
    }
  }
}

TEST_CASE("exact_passes: finds nothing below the optimum, and too few states prove nothing") {
  auto const step = place_step({.ranks = 2, .microbatches = 3, .costs = {{}, {}}}, loop_placement(2), 3);
  auto const found = exact_passes(step, no_end, {.form = backward_choice::whole});
  REQUIRE(found.lists);
  auto const best = pass_timer(step).makespan(*found.lists);
  CHECK(best == 12);  // as 1F1B: 3 m + 3 (p - 1)
  auto const none = exact_passes(step, best, {.form = backward_choice::whole});
  CHECK(none.is_proved);
  CHECK_FALSE(none.lists);
  CHECK_FALSE(exact_passes(step, no_end, {.form = backward_choice::whole, .most_states = 10}).is_proved);
}
