// SPDX-License-Identifier: MIT
#include "cleave/schedule/search/reschedule.hpp"

#include <doctest/doctest.h>

#include "cleave/core/random.hpp"
#include "cleave/schedule/families/one_f_one_b.hpp"
#include "support/random_step.hpp"
#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("reschedule: with new costs, the result is never slower than before, and stages stay in place") {
  splitmix rng(31);
  int fresh = 0;
  for (int round = 0; round < 40; ++round) {
    auto problem = testing::random_step(rng, {3, 2, 6});
    auto const first = search_schedule(problem, {.effort = 20'000});
    for (auto& c : problem.costs) c.forward *= static_cast<double>(1 + rng.below(3));
    auto const next = reschedule(first.order, problem, {.effort = 100'000});
    REQUIRE(next.before);
    CHECK(next.found.certificate.makespan <= *next.before);
    CHECK(next.gain() >= 0);
    CHECK(next.is_new == (next.found.order != first.order));
    CHECK(next.is_new == (next.gain() > 0));
    CHECK(next.found.order.place == first.order.place);
    CHECK(testing::order_defect(next.found.order) == "");
    fresh += next.is_new;
  }
  CHECK(fresh > 0);
  CHECK(fresh < 40);
}

TEST_CASE("reschedule: keeps the schedule if it is optimal or if the gain is below the threshold") {
  auto const previous = one_f_one_b(4, 8);
  search_problem step{.ranks = 4, .microbatches = 8};
  step.costs.resize(4);
  search_options const whole{.form = backward_choice::whole, .effort = 100'000};
  auto const kept = reschedule(previous, step, whole);
  CHECK_FALSE(kept.is_new);
  CHECK(kept.found.order == previous);
  CHECK(kept.found.certificate.makespan == 33);
  CHECK(kept.gain() == 0);

  step.base_latency = 1;
  auto const changed = reschedule(previous, step, whole);
  CHECK(changed.is_new);
  CHECK(changed.gain() > 0.05);
  CHECK_FALSE(reschedule(previous, step, whole, 0.9).is_new);
}

TEST_CASE("reschedule: replaces a schedule that no longer fits, and rejects an invalid one") {
  search_problem step{.ranks = 4, .microbatches = 8};
  step.costs.resize(4);
  step.memory_limit = {2};
  auto previous = one_f_one_b(4, 8);
  auto const changed = reschedule(previous, step, {.effort = 50'000});
  CHECK(changed.is_new);
  CHECK_FALSE(changed.before);
  for (auto const bytes : changed.found.certificate.peak_bytes) CHECK(bytes <= 2);
  previous.ranks[0].pop_back();
  CHECK_THROWS_AS(reschedule(previous, step), schedule_error);
}
