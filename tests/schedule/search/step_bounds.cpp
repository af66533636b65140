// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/step_bounds.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/pass_timer.hpp"
#include "cleave/schedule/search/exact_schedule.hpp"
#include "support/random_step.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bounds_of: no bound exceeds the exact optimum, for any memory limit and backward form") {
  splitmix rng(16);
  std::set<std::string> reasons;
  int reached = 0, compared = 0;
  for (int round = 0; round < 150; ++round) {
    auto problem = testing::random_step(rng, {3, 2, 3});
    if (problem.costs.size() * problem.microbatches > 9) continue;
    problem.memory_limit = {testing::random_memory_limit(rng, problem)};
    for (auto const& step : placed_steps(problem))
      for (auto const form : {backward_choice::either, backward_choice::whole, backward_choice::split}) {
        auto const found = exact_passes(step, no_end, {.form = form});
        if (!found.lists || !found.is_proved) continue;
        auto const best = pass_timer(step).makespan(*found.lists);
        auto const bounds = bounds_of(step, form);
        for (auto const bound : {bounds.work, bounds.path, bounds.rank, bounds.memory})
          CHECK(bound <= best + 1e-9);
        reasons.emplace(bounds.reason());
        ++compared;
        reached += bounds.best() >= best - 1e-9;
      }
  }
  CHECK(compared > 150);
  CHECK(2 * reached > compared);
  CHECK(reasons.contains("rank"));
  CHECK(reasons.contains("memory"));
}

TEST_CASE("bounds_of: with equal stages, the rank bound is the makespan of 1F1B, 3 m + 3 (p - 1)") {
  for (std::uint32_t const p : {1u, 2u, 4u, 8u})
    for (std::uint32_t const m : {p, 3 * p}) {
      search_problem problem{.ranks = p, .microbatches = m};
      problem.costs.resize(p);
      auto const bounds = bounds_of(place_step(problem, loop_placement(p), m), backward_choice::whole);
      CHECK(bounds.work == 3 * m);
      CHECK(bounds.path == 3 * p);
      CHECK(bounds.rank == 3 * m + 3 * (p - 1));
      CHECK(bounds.best() == bounds.rank);
    }
}

TEST_CASE("bounds_of: the memory bound counts weight passes that run one after the other") {
  search_problem problem{.ranks = 2, .microbatches = 2};
  for (auto const [forward, input, weight] :
       {std::array{1, 3, 2}, std::array{1, 3, 5}, std::array{2, 2, 3}, std::array{3, 3, 1}})
    problem.costs.push_back({.forward = 1.0 * forward,
                             .backward = 1.0 * (input + weight),
                             .input_gradient = 1.0 * input,
                             .weight_gradient = 1.0 * weight});
  problem.memory_limit = {3};
  auto const step = place_step(problem, loop_placement(2, 2), 2);
  CHECK(bounds_of(step, backward_choice::split).memory == 35);  // 34 without their order
  auto const found = exact_passes(step, no_end, {.form = backward_choice::split});
  REQUIRE(found.lists);
  CHECK(pass_timer(step).makespan(*found.lists) == 36);
}

TEST_CASE("bounds_of: with memory for one microbatch, the memory bound runs them one after the other") {
  search_problem problem{.ranks = 4, .microbatches = 5};
  problem.costs.resize(4);
  problem.memory_limit = {1};
  auto const bounds = bounds_of(place_step(problem, loop_placement(4), 5), backward_choice::whole);
  CHECK(bounds.memory == 5 * 3 * 4);
  CHECK(bounds.reason() == "memory");
}
