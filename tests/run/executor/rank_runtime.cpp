// SPDX-License-Identifier: MIT
#include "cleave/run/executor/rank_runtime.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "support/linear_engine.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// Four stages in a line, which compute 1 + 2 x, and plans for them.
struct line {
  dataflow t{.stages = 4,
             .edges = {{the_caller, 0, stage_id{0}, 0},
                       {stage_id{0}, 0, stage_id{1}, 0},
                       {stage_id{1}, 0, stage_id{2}, 0},
                       {stage_id{2}, 0, stage_id{3}, 0},
                       {stage_id{3}, 0, the_caller, 0}}};
  std::vector<linear_stage> stages{4, {2, 1}};
  std::vector<double> numbers{1, -2, 3, 1};
  std::vector<tensor_view> inputs;

  line() {
    for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
  }
  step_plan plan_of(schedule const& s) const { return {s, t, linear_layouts(t, {1, 1, 1, 1})}; }

  template <class S>
  void check_results(thread_pipeline<S>& run, std::size_t plan_number) const {
    run.run_step({inputs, 1, {}}, plan_number);
    for (std::uint32_t m = 0; m < 4; ++m) {
      auto const got = run.result(microbatch_id{m}, 0, 0, plan_number);
      REQUIRE(got);
      CHECK(*static_cast<double const*>(got->data) == 15 + 16 * numbers[m]);
    }
  }
};

/// Stages that save activations for backward passes and cannot recompute them.
struct keeping_stages {
  linear_engine engine;

  void forward(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    engine.forward(s, p, in, out);
  }
  void backward(host_device::stream& s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    engine.backward(s, p, gradients, in);
  }
};

}  // namespace

TEST_CASE("thread_pipeline: add_plan() rejects a plan that moves stages, and the run goes on") {
  line const model;
  auto const training = make_schedule(schedule_family::interleaved_1f1b, {2, 2, 4});
  thread_pipeline<linear_engine> run(model.plan_of(training),
                                     {2, linear_engine(model.stages, nothing_to_prepare{})});
  auto const refused = [&](schedule const& s) {
    try {
      run.add_plan(model.plan_of(s));
    } catch (placement_change_error const& e) {
      return e.witness;
    }
    FAIL("it is not refused");
    return placement_change{};
  };
  using enum placement_change::kind;
  CHECK(refused(make_schedule(schedule_family::zbv, {2, 2, 4})) ==
        placement_change{moved, 1, 0, stage_id{2}});
  CHECK(refused(make_schedule(schedule_family::one_f_one_b, {4, 1, 4})) ==
        placement_change{rank_count, 4, 2});
  auto const second = run.add_plan(model.plan_of(forward_only(2, 2, 4)));
  CHECK(second == 1);
  model.check_results(run, second);
  model.check_results(run, 0);
}

TEST_CASE("thread_pipeline: add_plan() drops on all ranks a plan that one rank cannot carry out") {
  line const model;
  auto const training = make_schedule(schedule_family::interleaved_1f1b, {2, 2, 4});
  keeping_stages const stages{{model.stages, nothing_to_prepare{}}};
  thread_pipeline<keeping_stages> run(model.plan_of(training), {stages, stages});
  auto const again = model.plan_of(limit_saved_activations(
      lower(training), {.memory_limit = {8, 2}, .relief = {saved_relief::recompute}}));
  CHECK_FALSE(find_lacking_ability<keeping_stages, host_device>(make_rank_program(again, rank_id{0})));
  for (int attempt = 0; attempt < 2; ++attempt) {
    CHECK_THROWS_AS(run.add_plan(again), program_need_error);
    CHECK_THROWS_AS(run.add_plan(again), program_need_error);
    auto const next = run.add_plan(model.plan_of(forward_only(2, 2, 4)));
    CHECK(next == static_cast<std::size_t>(attempt) + 1);
    model.check_results(run, next);
    model.check_results(run, 0);
  }
}
