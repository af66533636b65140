// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/threads.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/linear_engine.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// Steps of ranks that are threads, which end with an optimiser step whose norm and factor stay on the GPU.
using namespace cleave;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;
using numbers = std::vector<double>;

static_assert(device_updated_stage<cuda_linear_engine, cleave::cuda::device>);
template <class Run>
concept ends_steps_with_updates = requires(Run& run, step_values const& v) { run.run_step_and_update(v); };
static_assert(ends_steps_with_updates<cuda_linear_run>);
static_assert(!ends_steps_with_updates<thread_pipeline<linear_engine>>);  // the host reads the norm itself

/// Where the optimiser step of a step is.
enum class update_at { end_of_step, between_steps, either_in_turn };

/// A chain on two ranks with two stages each, and its options.
struct updated_case {
  schedule s = family_schedule(schedule_family::interleaved_1f1b, 2, 4);
  linear_chain model;
  step_plan plan;
  pipeline_options options = {.watchdog = {.limit = 30s}};

  explicit updated_case(std::uint32_t replicas = 1, rng random = rng(12))
      : model(s, random), plan(s, model.t, linear_layouts(model.t, model.rows)) {
    options.replicas = replicas;
    options.ties = {{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}}};
  }
  std::uint32_t ranks() const { return 2 * options.replicas; }
};

/// The inputs of a step: those of the model, or with an infinite one in the last replica.
enum class given { usual, infinite };

/// Reports by step, and all parameters after each.
struct seen_updates {
  std::vector<update_report> reports;
  std::vector<numbers> parameters;

  bool operator==(seen_updates const&) const = default;
};

update_options options_of(std::size_t step) {
  return {.most_norm = 3.0 + static_cast<double>(step), .factor = 0.25};
}

seen_updates run_on_host(updated_case const& c, std::size_t steps) {
  std::vector<linear_engine> engines(c.ranks(), linear_engine(c.model.stages, {}));
  thread_pipeline<linear_engine> run(c.plan, std::move(engines), c.options);
  run.share_ties();
  seen_updates seen;
  for (std::size_t i = 0; i < steps; ++i) {
    run.run_step(std::vector(c.options.replicas, c.model.values()));
    seen.reports.push_back(run.update(options_of(i)));
    auto& now = seen.parameters.emplace_back();
    for (std::uint32_t r = 0; r < c.ranks(); ++r)
      for (std::uint32_t s = 0; s < c.model.t.stages; ++s)
        if (c.plan.rank_of(stage_id{s}) == rank_id{r % 2}) {
          auto const made = run.stages_of(rank_id{r}).stage_of(stage_id{s});
          now.insert(now.end(), {made.w, made.b});
        }
  }
  return seen;
}

/// Runs steps on simulated GPUs; CHECKs that nothing races or leaks.
seen_updates run_on_gpus(updated_case const& c, update_at where, std::vector<given> const& steps,
                         cleave::cuda::threads const& on = {}, fake_peers peers = fake_peers::reachable,
                         std::optional<std::size_t> left_out = {}) {
  seen_updates seen;
  fake_cuda fake({.longest_delay = 100us, .devices = {2, fake_gpu()}, .peers = peers});
  {
    cleave::cuda::device d;
    cuda_step const step(d, c.model.values()), broken(d, c.model.values());
    auto const infinite = std::numeric_limits<double>::infinity();
    cleave::cuda::check(
        cudaMemcpy(broken.values().inputs[0].data, &infinite, sizeof infinite, cudaMemcpyHostToDevice),
        "cudaMemcpy");
    cuda_linear_run run(c.plan, linear_engines(c.model), c.options, on);
    run.share_ties();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (i == left_out) continue;
      std::vector<step_values> values(c.options.replicas, step.values());
      if (steps[i] == given::infinite) values.back() = broken.values();
      bool const at_end =
          where == update_at::end_of_step || (where == update_at::either_in_turn && i % 2 == 0);
      if (at_end) {
        seen.reports.push_back(run.run_step_and_update(values, options_of(i)));
      } else {
        run.run_step(values);
        seen.reports.push_back(run.update(options_of(i)));
      }
      fake.threads_met();
      auto& now = seen.parameters.emplace_back();
      for (std::uint32_t r = 0; r < c.ranks(); ++r)
        for (std::uint32_t s = 0; s < c.model.t.stages; ++s)
          if (c.plan.rank_of(stage_id{s}) == rank_id{r % 2}) {
            auto const& of = run.stages_of(rank_id{r}).bodies();
            auto const made = of.stage_of(stage_id{s});
            now.insert(now.end(), {made.w, made.b});
            if (at_end) CHECK(of.gradient(stage_id{s}) == linear_gradient());
          }
    }
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
  return seen;
}

}  // namespace

TEST_CASE(
    "cuda::thread_pipeline: a step with its update has the bits of a step and an update, and the host's") {
  std::vector<given> const steps(5, given::usual);
  for (std::uint32_t const replicas : {1u, 2u}) {
    updated_case const c(replicas);
    auto const wanted = run_on_host(c, steps.size());
    CHECK(wanted.reports.front().applied);
    CHECK(wanted.reports.front().norm > 3);  // clipped
    CHECK(run_on_gpus(c, update_at::between_steps, steps) == wanted);
    for (auto const where : {update_at::end_of_step, update_at::either_in_turn}) {
      CHECK(run_on_gpus(c, where, steps) == wanted);
      CHECK(run_on_gpus(c, where, steps, {.gpus = {0, 1}}) == wanted);
      CHECK(run_on_gpus(c, where, steps, {.gpus = {0, 1}}, fake_peers::apart) == wanted);
    }
  }
}

TEST_CASE(
    "cuda::thread_pipeline: a step with gradients that are not finite updates no rank and is left out") {
  std::vector<given> const steps = {given::usual, given::infinite, given::usual, given::usual};
  for (std::uint32_t const replicas : {1u, 2u})
    for (auto const& gpus : {std::vector{0}, std::vector{0, 1}}) {
      updated_case const c(replicas);
      auto made = run_on_gpus(c, update_at::end_of_step, steps, {.gpus = gpus});
      REQUIRE(made.reports.size() == 4);
      CHECK(!made.reports[1].applied);
      CHECK(made.parameters[1] == made.parameters[0]);
      auto const twin = run_on_gpus(c, update_at::between_steps, {given::usual, given::infinite});
      CHECK(twin.parameters[1] == made.parameters[1]);
      CHECK(!twin.reports[1].applied);
      made.reports.erase(made.reports.begin() + 1);
      made.parameters.erase(made.parameters.begin() + 1);
      CHECK(made == run_on_gpus(c, update_at::between_steps, steps, {.gpus = gpus}, {}, 1));
    }
}

TEST_CASE(
    "cuda::thread_pipeline: in a step with its update, the host neither reads the norm nor waits for it") {
  updated_case const c;
  for (auto const where : {update_at::end_of_step, update_at::between_steps}) {
    fake_cuda fake;
    {
      cleave::cuda::device d;
      cuda_step const step(d, c.model.values());
      cuda_linear_run run(c.plan, linear_engines(c.model), c.options);
      std::map<std::string, std::size_t> before;
      char const* const calls[] = {"cudaLaunchHostFunc", "cudaStreamSynchronize", "cudaDeviceSynchronize",
                                   "cudaMemcpy", "cudaMalloc"};
      for (int i = 0; i < 3; ++i) {
        if (where == update_at::end_of_step) {
          run.run_step_and_update(step.values());
        } else {
          run.run_step(step.values());
          run.update();
        }
        std::size_t more = 0;
        for (auto const* const call : calls) {
          more += fake.calls(call) - before[call];
          before[call] = fake.calls(call);
        }
        if (i > 0) CHECK((more == 0) == (where == update_at::end_of_step));
      }
    }
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::thread_pipeline: a rank that reads the norm before it is summed is detected") {
  updated_case c;
  c.options.ties.clear();
  auto const run_with = [&](std::function<bool(fake_wait const&)> ignored) {
    fake_cuda fake;
    fake.ignore_waits(std::move(ignored));
    {
      cleave::cuda::device d;
      cuda_step const step(d, c.model.values());
      cuda_linear_run run(c.plan, linear_engines(c.model), c.options);
      run.run_step_and_update(step.values());
    }
    return fake.reports();
  };
  std::mutex one;
  std::map<std::size_t, std::size_t> last;  // wait of each stream
  CHECK(run_with([&](fake_wait const& w) {
          std::lock_guard lock(one);
          last[w.stream] = w.in_stream;
          return false;
        }) == sentences());
  std::size_t found = 0;
  for (auto const& [stream, number] : last)
    for (auto const& text :
         run_with([&](fake_wait const& w) { return w.stream == stream && w.in_stream == number; }))
      if (text.find("update") != text.npos) {
        ++found;
        break;
      }
  CHECK(found == 2);  // the streams of passes of both ranks
}

namespace {

/// Linear stages whose optimiser fails on one stage.
struct failing_bodies : linear_bodies {
  using linear_bodies::linear_bodies;
  using linear_bodies::update;
  void update(cudaStream_t s, stage_id i, device_update const* u) {
    if (i == stage_id{1}) throw error("the optimiser has no state");
    linear_bodies::update(s, i, u);
  }
};

}  // namespace

TEST_CASE(
    "cuda::thread_pipeline: a failure in the update at the end of a step ends the run, and nothing leaks") {
  updated_case const c;
  fake_cuda fake;
  {
    cleave::cuda::device d;
    cuda_step const step(d, c.model.values());
    using engine = cleave::cuda::callable_stage<failing_bodies>;
    cleave::cuda::thread_pipeline<engine> run(
        c.plan, [&](rank_id, cleave::cuda::device& of) { return engine(failing_bodies(of, c.model.stages)); },
        c.options);
    CHECK_THROWS_WITH(run.run_step_and_update(step.values()),
                      doctest::Contains("the optimiser has no state"));
    CHECK_THROWS_WITH(run.run_step_and_update(step.values()),
                      doctest::Contains("the optimiser has no state"));
    d.drain();
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::thread_pipeline: refuses to replay steps") {
  updated_case c;
  c.options.steps = step_mode::replayed;
  fake_cuda const fake;
  CHECK_THROWS_WITH_AS(
      cuda_linear_run(c.plan, linear_engines(c.model), c.options),
      "thread pipeline: threads cannot replay steps (step_mode::replayed), because a recording of one rank "
      "cannot wait for another rank in the middle; leave step_mode::issued, or run processes",
      error);
  CHECK(fake.leaks() == sentences());
}
