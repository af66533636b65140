// SPDX-License-Identifier: MIT
#include "cleave/cuda/threads.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/lower/reduce_ties.hpp"
#include "cleave/schedule/memory/limit_saved_activations.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_dataflow.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

lower_options random_lowering(rng& random) {
  return {.messages = random.one_in(2) ? message_order::timed : message_order::rounds,
          .receives = random.one_in(2) ? receive_time::at_once : receive_time::deferred,
          .reductions = random.one_in(2) ? reduction_wait::at_once : reduction_wait::deferred,
          .grouping = random.one_in(2) ? message_grouping::none : message_grouping::adjacent};
}

linear_outcome outcome_of_one_step(fake_cuda& fake, step_plan const& p, linear_model const& m,
                                   cleave::cuda::threads const& on = {}) {
  cleave::cuda::device d({.device = on.gpus.front()});
  cuda_step const step(d, m.values());
  cuda_linear_run run(p, linear_engines(m), {.watchdog = {.limit = 20s}}, on);
  run.run_step(step.values());
  fake.threads_met();
  return outcome_of(run, p, m);
}

/// Offloads or recomputes saved activations in some stages.
schedule relieved(rng& random, schedule s) {
  saved_activation_limit limit{.memory_limit = {3}, .relief = {}};
  for (std::uint32_t i = 0; i < s.place.stages(); ++i)
    limit.relief.push_back(random.one_in(2) ? saved_relief::offload : saved_relief::recompute);
  return limit_saved_activations(std::move(s), limit);
}

}  // namespace

TEST_CASE("cuda::thread_pipeline: every schedule family gives the host's results bit for bit") {
  rng random(2);
  for (std::size_t f = 0; f < schedule_names.size(); ++f)
    for (std::uint32_t ranks : {2u, 4u}) {
      auto const family = static_cast<schedule_family>(f);
      auto const s = family_schedule(family, ranks, 2 * ranks);
      linear_chain const c(s, random);
      CAPTURE(name_of(family));
      CAPTURE(ranks);
      step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.lowering = random_lowering(random)});
      auto const wanted = outcome_on_host(p, c);

      fake_cuda fake({.seed = random.next(), .longest_delay = 200us});
      CHECK(outcome_of_one_step(fake, p, c) == wanted);
      CHECK(fake.reports() == sentences());
      CHECK(fake.leaks() == sentences());
    }
}

TEST_CASE("cuda::thread_pipeline: several GPUs give the host's results, with or without peer access") {
  rng random(3);
  for (auto const peers : {fake_peers::reachable, fake_peers::apart}) {
    auto const s = family_schedule(schedule_family::zbv, 4, 4);
    linear_chain const c(s, random);
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
    fake_cuda fake({.longest_delay = 100us, .devices = {2, fake_gpu()}, .peers = peers});
    CHECK(outcome_of_one_step(fake, p, c, {.gpus = {0, 1}}) == outcome_on_host(p, c));
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::thread_pipeline: any graph of stages matches the host, and so do offload and recompute") {
  rng random(4);
  for (int i = 0; i < 12; ++i) {
    CAPTURE(i);
    linear_model const m(random_dataflow(random, static_cast<std::uint32_t>(1 + random.below(6))),
                         random_rows(1 + random.below(4), random), 3, random);
    auto const ranks = static_cast<std::uint32_t>(1 + random.below(3));
    std::vector<rank_id> rank_of;
    for (std::uint32_t s = 0; s < m.t.stages; ++s)
      rank_of.push_back(rank_id{static_cast<std::uint32_t>(random.below(ranks))});
    auto const s =
        list_schedule(placement_of(m.t, ranks, rank_of), static_cast<std::uint32_t>(m.rows.size()),
                      {.costs = random_costs(random, m.t.stages),
                       .backward = random.one_in(2) ? backward_form::whole : backward_form::split});
    step_plan const p(s, m.t, linear_layouts(m.t, m.rows), {.lowering = random_lowering(random)});
    fake_cuda fake({.seed = random.next(), .longest_delay = 100us});
    CHECK(outcome_of_one_step(fake, p, m) == outcome_on_host(p, m));
    CHECK(fake.reports() == sentences());
  }
  for (int i = 0; i < 4; ++i) {
    auto const s = relieved(random, family_schedule(schedule_family::one_f_one_b, 4, 8));
    linear_chain const c(s, random);
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.lowering = random_lowering(random)});
    fake_cuda fake({.seed = random.next(), .longest_delay = 100us});
    CHECK(outcome_of_one_step(fake, p, c) == outcome_on_host(p, c));
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::thread_pipeline: replica sums, tie sums and a clipped update match the host") {
  rng random(5);
  std::vector<tied_gradients> const ties{{{stage_id{0}, 0}, {stage_id{1}, 0}, {stage_id{3}, 0}},
                                         {{stage_id{1}, 1}, {stage_id{2}, 1}}};
  for (auto const& gpus : {std::vector{0}, std::vector{0, 1}}) {
    auto const s = family_schedule(schedule_family::interleaved_1f1b, 2, 4);
    linear_chain const c(s, random);
    step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
    pipeline_options const options{
        .watchdog = {.limit = 20s}, .replicas = 2, .ties = ties, .bucket_bytes = 16};
    std::vector<linear_engine> engines(4, linear_engine(c.stages, {}));
    thread_pipeline<linear_engine> twin(p, std::move(engines), options);
    twin.share_ties();
    twin.run_step(std::vector(2, c.values()));

    fake_cuda fake({.longest_delay = 100us, .devices = {2, fake_gpu()}});
    {
      cleave::cuda::device d;
      cuda_step const step(d, c.values());
      cuda_linear_run run(p, linear_engines(c), options, {.gpus = gpus});
      run.share_ties();
      run.run_step(std::vector(2, step.values()));
      fake.threads_met();
      for (std::uint32_t r = 0; r < 4; ++r)
        for (std::uint32_t n = 0; n < 4; ++n)
          if (p.rank_of(stage_id{n}) == rank_id{r % 2})
            CHECK(run.stages_of(rank_id{r}).bodies().gradient(stage_id{n}) ==
                  twin.stages_of(rank_id{r}).gradient(stage_id{n}));
      CHECK(run.times(rank_id{0}).size() == twin.times(rank_id{0}).size());

      update_options const clipped{.most_norm = 1};
      CHECK(run.update(clipped) == twin.update(clipped));
      fake.threads_met();
      for (std::uint32_t n = 0; n < 4; ++n) {
        auto const r = p.rank_of(stage_id{n});
        auto const made = run.stages_of(r).bodies().stage_of(stage_id{n});
        auto const wanted = twin.stages_of(r).stage_of(stage_id{n});
        CHECK(made.w == wanted.w);
        CHECK(made.b == wanted.b);
      }
      CHECK(run.stages_of(rank_id{0}).bodies().gradient(stage_id{0}) == linear_gradient());
    }
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
  }
}

TEST_CASE("cuda::thread_pipeline: rejects an empty GPU list and a GPU that does not exist") {
  rng random(6);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 2);
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  fake_cuda fake;
  CHECK_THROWS_WITH_AS(cuda_linear_run(p, linear_engines(c), {}, {.gpus = {}}),
                       "cuda threads: the list of GPUs is empty; give at least one, such as {0}", error);
  CHECK_THROWS_AS(cuda_linear_run(p, linear_engines(c), {}, {.gpus = {0, 1}}), cuda_error);
  CHECK(fake.leaks() == sentences());
}
