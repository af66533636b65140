// SPDX-License-Identifier: MIT
#include "cleave/schedule/list_passes.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/least_bytes.hpp"
#include "cleave/schedule/list_schedule.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

TEST_CASE("list passes: without caps and links they are those of the list schedule") {
  splitmix rng(8);
  for (int round = 0; round < 200; ++round) {
    auto problem = testing::random_step(rng);
    problem.links.clear();
    problem.resident.clear();
    for (auto& b : problem.bytes.stages) b.weight_stash = b.stash;
    auto const split = rng.below(2) == 0;
    for (auto const& step : placed_steps(problem)) {
      list_options options{.costs = problem.costs,
                           .hop = problem.hop,
                           .backward = split ? backward_form::split : backward_form::whole};
      for (auto const& b : problem.bytes.stages) options.kept.push_back(b.stash);
      auto const lists = list_passes(step, {.form = split ? backward_choice::split : backward_choice::whole});
      REQUIRE(lists);
      CHECK(schedule_of(step.place, step.microbatches, *lists) ==
            list_schedule(step.place, step.microbatches, options));
    }
  }
}

TEST_CASE(
    "list passes: whatever the rule, all is done once and ranks keep to their caps, or there is no room") {
  splitmix rng(9);
  int made = 0, refused = 0;
  for (int round = 0; round < 300; ++round) {
    auto problem = testing::random_step(rng);
    problem.most_bytes = {testing::random_cap(rng, problem)};
    for (auto const& step : placed_steps(problem)) {
      list_rule const rule{
          .form = rng.below(2) == 0 ? backward_choice::whole : backward_choice::split,
          .first = rng.below(2) == 0 ? list_preference::gradients : list_preference::forwards,
          .weights = rng.below(2) == 0 ? weight_timing::when_idle : weight_timing::at_once};
      auto const lists = list_passes(step, rule);
      ++(lists ? made : refused);
      if (!lists) continue;
      CHECK(fits(step, *lists));
      CHECK(testing::order_defect(schedule_of(step.place, step.microbatches, *lists)) == "");
    }
  }
  CHECK(made > 200);
  CHECK(refused > 0);
}

TEST_CASE("list passes: a chain whose passes are whole runs in the least memory of its ranks") {
  splitmix rng(10);
  for (int round = 0; round < 200; ++round) {
    auto const problem = testing::random_step(rng);
    for (auto const& step : placed_steps(problem))
      CHECK(list_passes(step, {.room = least_bytes(step, backward_choice::whole)}));
  }
}
