// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "cleave/core/real.hpp"
#include "cleave/cuda/pipeline.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// Steps that end with an optimiser step, whose norm and factor stay on the GPU.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;

struct recorded_linear : linear_bodies {
  bool records() const { return true; }
};
using engine = cleave::cuda::callable_stage<recorded_linear>;
using pipeline = cleave::cuda::pipeline<engine>;

static_assert(device_updated_stage<engine, cleave::cuda::device>);

/// Where the optimiser step of a run is.
enum class update_at { end_of_step, between_steps };

/// Parameters and reports of all ranks, and the calls of the last step that wait for a GPU or ask it.
struct seen_updates {
  std::vector<std::vector<double>> parameters;
  std::vector<update_report> reports;
  std::vector<std::size_t> recordings;
  std::size_t launches = 0;
};

seen_updates run_updates(update_at where, step_mode steps, std::uint32_t replicas, double broken = 0) {
  rng random(11);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  linear_chain c(s, random);
  if (broken != 0) c.numbers[0][0] = broken;
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.delivery = {.delivery = delivery::one_queue}});
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 30s;
  o.run.replicas = replicas;
  o.run.steps = steps;
  auto const ranks = 2 * replicas;
  seen_updates seen;
  seen.parameters.resize(ranks);
  seen.reports.resize(ranks);
  seen.recordings.resize(ranks);
  fake_cuda fake(fake_gpus(ranks, 3));
  auto const thrown = on_ranks(ranks, [&](process_start const& here) {
    auto const make = [&](cleave::cuda::device& d) {
      return engine(recorded_linear{linear_bodies(d, c.stages)});
    };
    pipeline run(p, make, o, here);
    cuda_step const step(run.own_device(), c.values());
    auto const r = index(here.rank);
    for (int i = 0; i < 4; ++i) {
      update_options const with{.most_norm = 3.0 + i, .factor = 0.25};  // they may change
      run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
      auto const before = fake.calls("cudaLaunchKernel");
      run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
      if (where == update_at::end_of_step) {
        seen.reports[r] = run.run_step_and_update(step.values(), with);
      } else {
        run.run_step(step.values());
        seen.reports[r] = run.update(with);
      }
      run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
      if (r == 0) seen.launches = fake.calls("cudaLaunchKernel") - before;
    }
    for (auto const& of : run.stages().parameters(stage_id{run.place().pipe})) {
      auto const n = numbers_on_host({of.data, of.type, {static_cast<std::int64_t>(of.count)}});
      seen.parameters[r].insert(seen.parameters[r].end(), n.begin(), n.end());
    }
    seen.recordings[r] = run.recordings();
  });
  CHECK(thrown == lines(ranks));
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
  return seen;
}

}  // namespace

TEST_CASE("cuda::pipeline: a step with its update has the bits of a step and an update, also replayed") {
  for (std::uint32_t const replicas : {1u, 2u}) {
    auto const twin = run_updates(update_at::between_steps, step_mode::issued, replicas);
    for (auto const steps : {step_mode::issued, step_mode::replayed}) {
      auto const made = run_updates(update_at::end_of_step, steps, replicas);
      CHECK(made.parameters == twin.parameters);
      CHECK(made.reports == twin.reports);
      CHECK(made.reports.front().applied);
      // a call that waits for the GPU would break the recording
      for (auto const n : made.recordings) CHECK(n == (steps == step_mode::replayed ? 1 : 0));
      if (steps == step_mode::replayed) CHECK(made.launches == 0);  // the update is in the graph
    }
  }
}

TEST_CASE("cuda::pipeline: a gradient that is not finite leaves the parameters of all ranks as they are") {
  auto const broken = std::numeric_limits<double>::infinity();
  auto const made = run_updates(update_at::end_of_step, step_mode::replayed, 1, broken);
  auto const twin = run_updates(update_at::between_steps, step_mode::issued, 1, broken);
  CHECK(made.parameters == twin.parameters);
  for (auto const& r : made.reports) CHECK(!r.applied);
}

TEST_CASE("update_of: has the norm and factor of parameter_updater for any sum of squares") {
  rng random(5);
  for (int i = 0; i < 2000; ++i) {
    auto const squares = std::bit_cast<double>(random.next() >> 1);  // any that is not negative, also NaN
    update_options const o{.most_norm = 0.5 + static_cast<double>(random.below(100)),
                           .factor = static_cast<double>(random.below(9)) - 4};
    auto const norm = magnitude(o.factor) * square_root(squares);
    auto const made = update_of(norm, o);
    CHECK(made.applied == (is_finite(norm) ? 1u : 0u));
    if (made.applied == 0) continue;
    CHECK(made.norm == norm);
    CHECK(made.factor == o.factor * clip_factor(norm, o.most_norm));
    CHECK(magnitude(made.factor) * square_root(squares) <= o.most_norm * (1 + 1e-12));
  }
}
