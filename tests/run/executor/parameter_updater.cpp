// SPDX-License-Identifier: MIT
#include "cleave/run/executor/rank_runtime.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/threads/thread_pipeline.hpp"
#include "cleave/schedule/families/forward_only.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/queued/queued_communicator.hpp"
#include "support/queued/queued_device.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

/// Four stages in a line on two ranks, with the w of stages 0, 1 and 3 tied.
struct tied_line {
  schedule s = make_schedule(schedule_family::interleaved_1f1b, {2, 2, 4});
  dataflow t = dataflow_of_chain(s);
  std::vector<linear_stage> stages{{2, 1}, {3, 0}, {1, -1}, {-1, 2}};
  std::vector<double> numbers{1, -2, 3, 1};
  std::vector<tensor_view> inputs;
  std::vector<double> weights{1, 1, 1, 1};
  std::vector<tied_gradients> ties{{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}}};
  step_plan plan{s, t, linear_layouts(t, {1, 1, 1, 1})};

  tied_line() {
    for (auto& x : numbers) inputs.push_back({&x, element_type::f64, {1}});
  }
  step_values values() const { return {inputs, 1, weights}; }
  std::vector<linear_engine> engines(std::size_t ranks = 2) const {
    std::vector<linear_engine> made;
    while (made.size() < ranks) made.emplace_back(stages, nothing_to_prepare{});
    return made;
  }
};

using pipeline = thread_pipeline<linear_engine>;

linear_stage stage_in(pipeline& run, tied_line const& line, std::uint32_t s) {
  return run.stages_of(line.plan.rank_of(stage_id{s})).stage_of(stage_id{s});
}

/// One stage with one parameter, on a device whose work is asynchronous to the issuing thread.
struct lone_parameter {
  double value = 1, gradient = 3;
  region at_value[1] = {{&value, 1, element_type::f64}}, at_gradient[1] = {{&gradient, 1, element_type::f64}};

  void forward(queued_stream&, stage_pass const&, std::span<tensor_view const>, std::span<tensor_view>) {}
  std::span<region const> parameters(stage_id) { return at_value; }
  std::span<region const> gradients(stage_id) { return at_gradient; }
  void update(queued_stream& s, stage_id, double factor) {
    s.call([this, factor] { value -= factor * gradient; });
  }
};

}  // namespace

TEST_CASE("share_ties: copies the parameter of the lowest stage to all tied copies bit for bit") {
  tied_line line;
  for (double const first : {2.0, -0.0, std::numeric_limits<double>::quiet_NaN()}) {
    line.stages[0].w = first;
    pipeline run(line.plan, line.engines(), {.ties = line.ties});
    run.share_ties();
    for (std::uint32_t const s : {0u, 1u, 3u}) {
      auto const w = stage_in(run, line, s).w;
      CHECK(std::memcmp(&w, &first, sizeof w) == 0);
    }
    CHECK(stage_in(run, line, 2).w == 1);
    CHECK(stage_in(run, line, 1).b == 0);
  }
}

TEST_CASE("parameter_updater: matches the whole model's step, counts ties once in the norm, and clips") {
  tied_line line;
  line.stages[1].w = line.stages[3].w = line.stages[0].w;
  linear_twin const twin(line.t, line.stages, line.values(), {1, 1, 1, 1});
  auto const& g = twin.gradients;
  double const w = g[0].w + g[1].w + g[3].w;
  double const norm = std::sqrt(w * w + g[2].w * g[2].w + g[0].b * g[0].b + g[1].b * g[1].b +
                                g[2].b * g[2].b + g[3].b * g[3].b);
  for (double const most : {HUGE_VAL, 1.0}) {
    pipeline run(line.plan, line.engines(), {.ties = line.ties});
    run.run_step(line.values());
    auto const done = run.update({.most_norm = most, .factor = 0.5});
    CHECK(done.applied);
    CHECK(done.norm == doctest::Approx(norm / 2).epsilon(1e-14));
    double const factor = 0.5 * (most == 1.0 ? 2 / norm : 1);
    for (std::uint32_t s = 0; s < 4; ++s) {
      auto const now = stage_in(run, line, s);
      CHECK(now.w == doctest::Approx(line.stages[s].w - factor * (s == 2 ? g[2].w : w)).epsilon(1e-14));
      CHECK(now.b == doctest::Approx(line.stages[s].b - factor * g[s].b).epsilon(1e-14));
      CHECK(run.stages_of(line.plan.rank_of(stage_id{s})).gradient(stage_id{s}) == linear_gradient{});
    }
    for (std::uint32_t const s : {1u, 3u}) CHECK(stage_in(run, line, s).w == stage_in(run, line, 0).w);
  }
}

TEST_CASE("parameter_updater: changes no parameter on any rank if a gradient is not finite") {
  tied_line line;
  line.weights[2] = std::numeric_limits<double>::infinity();
  pipeline run(line.plan, line.engines());
  run.run_step(line.values());
  auto const done = run.update();
  CHECK_FALSE(done.applied);
  CHECK_FALSE(std::isfinite(done.norm));
  for (std::uint32_t s = 0; s < 4; ++s) {
    CHECK(stage_in(run, line, s).w == line.stages[s].w);
    CHECK(stage_in(run, line, s).b == line.stages[s].b);
  }
}

TEST_CASE("gradient_end::kept: gradients kept over steps are summed across replicas once") {
  tied_line line;
  pipeline run(line.plan, line.engines(4), {.replicas = 2, .ties = line.ties});
  auto values = line.values();
  values.gradients = gradient_end::kept;
  std::vector<step_values> const kept(2, values), reduced(2, line.values());
  run.run_step(kept);
  run.run_step(kept);
  run.run_step(reduced);
  linear_twin const twin(line.t, line.stages, line.values(), {1, 1, 1, 1});
  auto const& g = twin.gradients;
  for (std::uint32_t r = 0; r < 4; ++r)
    for (std::uint32_t s = 0; s < 4; ++s) {
      if (index(line.plan.rank_of(stage_id{s})) != r % 2) continue;
      double const w = s == 2 ? g[2].w : g[0].w + g[1].w + g[3].w;
      CHECK(run.stages_of(rank_id{r}).gradient(stage_id{s}) == linear_gradient{6 * w, 6 * g[s].b});
    }
}

TEST_CASE("thread_pipeline: a forward-only plan evaluates between steps without changing gradients") {
  tied_line line;
  auto const forward = forward_only(2, 2, 4);
  step_plan const evaluation(forward, line.t, linear_layouts(line.t, {1, 1, 1, 1}));
  pipeline run(line.plan, line.engines(), {.ties = line.ties});
  auto const second = run.add_plan(evaluation);
  linear_twin const twin(line.t, line.stages, line.values(), {1, 1, 1, 1});
  for (int i = 0; i < 3; ++i) {
    run.run_step(line.values(), second);
    for (std::uint32_t m = 0; m < 4; ++m) {
      auto const got = run.result(microbatch_id{m}, 0, 0, second);
      REQUIRE(got);
      CHECK(*static_cast<double const*>(got->data) == twin.results[m].at(0)[0]);
    }
    for (std::uint32_t s = 0; s < 4; ++s)
      CHECK(run.stages_of(line.plan.rank_of(stage_id{s})).gradient(stage_id{s}).b ==
            (i == 0 ? 0 : twin.gradients[s].b));
    if (i == 0) run.run_step(line.values());
  }
}

TEST_CASE("parameter_updater: times out if a rank does not come to the update") {
  host_ranks ranks(2);
  host_group group(ranks, {rank_id{0}, rank_id{1}});
  queued_device d(ranks, rank_id{0});
  queued_communicator with(group, 0);
  lone_parameter stages;
  parameter_updater updater(d, with, stages, {stage_id{0}}, {}, {}, std::chrono::milliseconds(20));
  CHECK_THROWS_WITH_AS(updater.update({}),
                       "rank 0, update of parameters: timed out: it did not finish within 20 ms", run_error);
  CHECK(stages.value == 1);
  ranks.publish({.code = failure_code::cancelled});
}

TEST_CASE("parameter_updater: update() returns after its asynchronous work has ended") {
  host_ranks ranks(1);
  host_group group(ranks, {rank_id{0}});
  queued_device d(ranks, rank_id{0}, {.longest_delay = std::chrono::milliseconds(2)});
  queued_communicator with(group, 0);
  lone_parameter stages;
  parameter_updater updater(d, with, stages, {stage_id{0}}, {}, {}, std::chrono::minutes(5));
  for (int i = 1; i < 20; ++i) {
    CHECK(updater.update({}).applied);
    CHECK(stages.value == 1 - 3 * i);
  }
}
