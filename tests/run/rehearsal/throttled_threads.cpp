// SPDX-License-Identifier: MIT
#include "cleave/run/rehearsal/throttled_threads.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/program/step_plan.hpp"
#include "cleave/run/rehearsal/paced_stage.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using clock = std::chrono::steady_clock;
using slow_engine = paced_stage<linear_engine>;

simulate_options slow_links() {
  simulate_options o;
  o.costs = {{.forward = 1, .backward = 2, .input_gradient = 1, .weight_gradient = 1}};
  o.links = {{2, 1e4}};
  o.uplinks = {{{rank_id{1}}, 5e3}};
  return o;
}

std::vector<linear_gradient> gradients_of(auto& run, schedule const& s) {
  std::vector<linear_gradient> made;
  for (std::uint32_t i = 0; i < s.place.stages(); ++i)
    made.push_back(run.stages_of(s.place.rank_of[i]).gradient(stage_id{i}));
  return made;
}

}  // namespace

TEST_CASE("throttled_threads, paced_stage: make a step slower, and change none of its numbers") {
  for (auto const family : {schedule_family::gpipe, schedule_family::one_f_one_b, schedule_family::zbv}) {
    CAPTURE(name_of(family));
    rng random(3);
    auto const s = family_schedule(family, 3, 4);
    linear_chain const c(s, random);
    step_plan const plan(s, c.t, linear_layouts(c.t, c.rows));
    thread_pipeline<linear_engine> fast(plan, std::vector(3, linear_engine(c.stages, {})));
    fast.run_step(c.values());
    auto const timing = slow_links();
    thread_pipeline<slow_engine, throttled_threads> slow(
        plan, std::vector(3, slow_engine(linear_engine(c.stages, {}), timing, 1ms)), {},
        throttled_threads(timing, 1ms));
    auto const begin = clock::now();
    slow.run_step(c.values());
    auto none = timing;
    none.bytes = {};
    CHECK(clock::now() - begin >= 0.99 * simulate(plan.order(), none).makespan * 1ms);
    CHECK(gradients_of(slow, s) == gradients_of(fast, s));
  }
}

TEST_CASE("throttled_threads: a run that fails does not wait for messages on their way") {
  rng random(3);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 2);
  linear_chain const c(s, random);
  step_plan const plan(s, c.t, linear_layouts(c.t, c.rows));
  simulate_options timing;
  timing.links = {{3'600, 1e9}};  // an hour late
  auto const begin = clock::now();
  {
    pipeline_options o;
    o.watchdog.limit = 100ms;
    thread_pipeline<linear_engine, throttled_threads> run(plan, std::vector(2, linear_engine(c.stages, {})),
                                                          o, throttled_threads(timing));
    CHECK_THROWS_AS(run.run_step(c.values()), run_error);
  }
  CHECK(clock::now() - begin < 60s);
}

TEST_CASE("throttled_threads: links that do not fit the ranks are refused") {
  rng random(3);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 2);
  linear_chain const c(s, random);
  step_plan const plan(s, c.t, linear_layouts(c.t, c.rows));
  auto const refused = [&](simulate_options timing) {
    using run = thread_pipeline<linear_engine, throttled_threads>;
    CHECK_THROWS_AS(run(plan, std::vector(2, linear_engine(c.stages, {})), {}, throttled_threads(timing)),
                    simulate_option_error);
  };
  refused({.links = std::vector<rank_link>(3)});
  refused({.links = {{-1, 1}}});
  refused({.uplinks = {{{rank_id{2}}, 1}}});
  refused({.uplinks = {{{rank_id{0}}, 0}}});
}
