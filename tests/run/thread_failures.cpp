// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_engine.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// Throws or hangs in pass `at` of a run, counted over all ranks.
struct trap {
  std::atomic<std::size_t> passes = 0;
  std::size_t at = 0;
  enum class kind : std::uint8_t { throws, throws_a_number, hangs } what = kind::throws;
  std::atomic<bool> released = false;
  stage_pass sprung = {};
  std::atomic<bool> has_sprung = false;
  trap* behind = nullptr;  ///< the trap it waits for before it throws
};

struct trapped {
  trap* t;
  void operator()(stage_pass const& p) const {
    if (t->passes++ != t->at) return;
    t->sprung = p;
    t->has_sprung = true;
    while (t->behind && !t->behind->has_sprung) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (t->what == trap::kind::throws) throw std::out_of_range("no such row");
    if (t->what == trap::kind::throws_a_number) throw 7;
    while (!t->released) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};
using trapped_engine = basic_linear_engine<trapped>;

struct trapped_run {
  dataflow t;
  std::vector<double> numbers;
  std::vector<tensor_view> inputs;
  std::unique_ptr<thread_pipeline<trapped_engine>> run;

  trapped_run(schedule const& s, trap& sprung, std::chrono::milliseconds limit)
      : t{.stages = s.place.stages(), .edges = {}}, numbers(s.microbatches, 1) {
    t.edges.push_back({the_caller, 0, stage_id{0}, 0});
    for (auto const& e : s.place.edges) t.edges.push_back({e.from, 0, e.to, 0});
    t.edges.push_back({stage_id{t.stages - 1}, 0, the_caller, 0});
    for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
    step_plan const p(s, t, linear_layouts(t, std::vector<std::int64_t>(s.microbatches, 1)));
    std::vector<trapped_engine> engines;
    while (engines.size() < s.ranks.size())
      engines.emplace_back(std::vector<linear_stage>(t.stages), trapped{&sprung});
    run = std::make_unique<thread_pipeline<trapped_engine>>(p, std::move(engines),
                                                            pipeline_options{.watchdog = {.limit = limit}});
  }
  step_values values() const { return {inputs, 1, {}}; }
};

}  // namespace

TEST_CASE("thread_pipeline: an exception in any pass ends the step, with its place named and nested") {
  auto const s = make_schedule(schedule_family::zbv, {2, 2, 3});
  for (std::size_t at = 0;; ++at) {
    trap t;
    t.at = at;
    trapped_run r(s, t, std::chrono::seconds(20));
    bool threw = false;
    try {
      r.run->run_step(r.values());
    } catch (stage_error const& e) {
      threw = true;
      CHECK(e.stage == t.sprung.stage);
      CHECK(e.microbatch == t.sprung.microbatch);
      CHECK(std::string(e.what()).find("stage " + std::to_string(index(e.stage)) + ", microbatch " +
                                       std::to_string(index(e.microbatch)) + ": no such row") !=
            std::string::npos);
      CHECK_THROWS_AS(e.rethrow_nested(), std::out_of_range);
    }
    if (!threw) {
      CHECK(t.passes == at);
      CHECK(at == 4u * 3 * 3);  // F, I or B, W of four stages and three microbatches
      break;
    }
    CHECK_THROWS_AS(r.run->run_step(r.values()), stage_error);  // the run is over
  }
}

TEST_CASE("thread_pipeline: a failure in a later replica names its rank in the whole run") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 2});
  trap none, t;
  none.at = 1000;
  t.at = 3;
  trapped_run const shape(s, none, std::chrono::seconds(20));
  step_plan const p(s, shape.t, linear_layouts(shape.t, {1, 1}));
  std::vector<trapped_engine> engines;
  for (int r = 0; r < 4; ++r) engines.emplace_back(std::vector<linear_stage>(2), trapped{r < 2 ? &none : &t});
  thread_pipeline<trapped_engine> run(p, std::move(engines), {.replicas = 2});
  try {
    run.run_step(std::vector(2, shape.values()));
    FAIL("the step ended");
  } catch (stage_error const& e) {
    CHECK(index(e.info.reporter) == 2 + index(e.stage));
    CHECK(e.info.culprit == e.info.reporter);
  }
}

TEST_CASE("thread_pipeline: a hanging pass of a later replica is named by its rank in the whole run") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 2});
  trap none, t;
  none.at = 1000;
  t.at = 3;
  t.what = trap::kind::hangs;
  trapped_run const shape(s, none, std::chrono::seconds(20));
  step_plan const p(s, shape.t, linear_layouts(shape.t, {1, 1}));
  std::vector<trapped_engine> engines;
  for (int r = 0; r < 4; ++r) engines.emplace_back(std::vector<linear_stage>(2), trapped{r < 2 ? &none : &t});
  thread_pipeline<trapped_engine> run(p, std::move(engines),
                                      {.watchdog = {.limit = std::chrono::milliseconds(300)}, .replicas = 2});
  try {
    run.run_step(std::vector(2, shape.values()));
    FAIL("the step ended");
  } catch (run_error const& e) {
    CHECK(e.info.code == failure_code::timeout);
    REQUIRE(t.has_sprung);
    CHECK(index(e.info.culprit) == 2 + index(t.sprung.stage));
  }
  t.released = true;
}

TEST_CASE("thread_pipeline: a failure ends the call at once, even while other ranks still compute") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 2});
  trap none, hangs, throws;
  none.at = 1000;
  hangs.at = 0;
  hangs.what = trap::kind::hangs;
  throws.at = 1;
  throws.behind = &hangs;
  trapped_run const shape(s, none, std::chrono::seconds(20));
  step_plan const p(s, shape.t, linear_layouts(shape.t, {1, 1}));
  std::vector<trapped_engine> engines;
  engines.emplace_back(std::vector<linear_stage>(2), trapped{&throws});
  engines.emplace_back(std::vector<linear_stage>(2), trapped{&hangs});
  thread_pipeline<trapped_engine> run(p, std::move(engines),
                                      {.watchdog = {.limit = std::chrono::seconds(20)}});
  auto const begin = std::chrono::steady_clock::now();
  CHECK_THROWS_AS(run.run_step(shape.values()), stage_error);
  CHECK_THROWS_AS(run.run_step(shape.values()), stage_error);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  hangs.released = true;
}

TEST_CASE("thread_pipeline: keeps an exception that is not a std::exception") {
  trap t;
  t.at = 5;
  t.what = trap::kind::throws_a_number;
  trapped_run r(make_schedule(schedule_family::one_f_one_b, {2, 1, 4}), t, std::chrono::seconds(20));
  try {
    r.run->run_step(r.values());
    FAIL("the step ended");
  } catch (stage_error const& e) {
    CHECK_THROWS_AS(e.rethrow_nested(), int);
  }
}

TEST_CASE("thread_pipeline: a pass that never ends is named when the step is overdue") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {3, 1, 4});
  for (std::size_t const at : {0u, 7u, 13u, 20u}) {
    trap t;
    t.at = at;
    t.what = trap::kind::hangs;
    trapped_run r(s, t, std::chrono::milliseconds(200));
    auto const begin = std::chrono::steady_clock::now();
    try {
      r.run->run_step(r.values());
      FAIL("the step ended");
    } catch (run_error const& e) {
      auto const took = std::chrono::steady_clock::now() - begin;
      CHECK(took >= std::chrono::milliseconds(200));
      CHECK(took < std::chrono::seconds(5));
      CHECK(e.info.code == failure_code::timeout);
      REQUIRE(t.has_sprung);
      REQUIRE(e.info.at);
      CHECK(e.info.at->stage == t.sprung.stage);
      CHECK(e.info.at->microbatch == t.sprung.microbatch);
      CHECK(index(e.info.culprit) == index(t.sprung.stage));
    }
    t.released = true;
  }
}

TEST_CASE("thread_pipeline: rejects step values that do not fit the program, before the step") {
  trap t;
  t.at = 1000;
  trapped_run r(make_schedule(schedule_family::one_f_one_b, {2, 1, 4}), t, std::chrono::seconds(20));
  auto const inputs = r.inputs;
  CHECK_THROWS_WITH_AS(r.run->run_step(step_values{std::span(inputs).first(3), 1, {}}),
                       "step: 3 inputs are given, but the microbatches read 4", step_value_error);
  std::vector<double> const weights{1, 2};
  CHECK_THROWS_WITH_AS(
      r.run->run_step(step_values{inputs, 1, weights}),
      "step: 2 weights are given for 4 microbatches; give one weight per microbatch, or none",
      step_value_error);
  r.inputs[2].data = nullptr;
  CHECK_THROWS_WITH_AS(r.run->run_step(r.values()),
                       "step: input #0 of microbatch 2 is read by this rank, but has no data",
                       step_value_error);
  r.inputs[2] = {&r.numbers[2], element_type::f64, {2}};
  CHECK_THROWS_WITH_AS(r.run->run_step(r.values()),
                       "step: input #0 of microbatch 2 has another type or shape than edge #0 takes",
                       step_value_error);
  CHECK(t.passes == 0);
  r.inputs = inputs;
  r.run->run_step(r.values());
  CHECK(t.passes == 16);
}

TEST_CASE("thread_pipeline: rejects stages for another number of ranks, and zero replicas") {
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 4});
  dataflow const t{.stages = 2, .edges = {{stage_id{0}, 0, stage_id{1}, 0}}};
  step_plan const p(s, t, linear_layouts(t, {1, 1, 1, 1}));
  std::vector<linear_engine> one;
  one.emplace_back(std::vector<linear_stage>(2), nothing_to_prepare{});
  CHECK_THROWS_WITH_AS(thread_pipeline<linear_engine>(p, one),
                       "thread pipeline: stages of 1 ranks are given, but 2 ranks run them", error);
  CHECK_THROWS_WITH_AS(thread_pipeline<linear_engine>(p, one, {.replicas = 0}),
                       "thread pipeline: the number of replicas is 0; it must be at least 1", error);
}
