// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/cuda/pipeline.hpp"
#include "cleave/run/program/make_rank_program.hpp"
#include "cleave/run/rendezvous/process_start.hpp"
#include "cleave/schedule/model/delivery.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "gpu/report.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// What a rank that is a process does: so many steps of linear stages by a schedule, over NCCL, on GPU 0.
struct rank_task {
  schedule_family family = schedule_family::one_f_one_b;
  std::uint32_t microbatches = 8;
  std::size_t steps = 3;
  std::string running_file = {};  ///< written once the first step has ended
};

/// Runs it; how many of this rank's results and gradients differ from what threads of the host make of the
/// same. Of more than 8 steps nothing is compared. \throws run_error where another rank is lost
inline std::size_t run_rank(process_start const& start, rank_task const& task) {
  rng random = rng::recorded(31);
  auto const s = family_schedule(task.family, start.size, task.microbatches);
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.delivery = {.delivery = delivery::one_queue}});
  cleave::cuda::pipeline<cuda_linear_engine> run(
      p, [&](cleave::cuda::device& d) { return cuda_linear_engine(linear_bodies(d, c.stages)); },
      {.run = {.watchdog = {.limit = std::chrono::seconds(60)}}, .gpu = 0, .messages = {.most_blocks = 2}},
      start);
  cleave::cuda::device here;
  cuda_step const step(here, c.values());
  for (std::size_t i = 0; i < task.steps; ++i) {
    run.run_step(step.values());
    if (i == 0 && !task.running_file.empty()) std::ofstream(task.running_file) << "running\n";
  }
  if (task.steps > 8) return 0;

  auto const wanted = outcome_on_host(p, c, task.steps);
  std::size_t different = 0;
  for (std::uint32_t m = 0; m < c.rows.size(); ++m)
    for (std::uint32_t n = 0; n < results_of(c.t); ++n)
      if (auto const v = run.result(microbatch_id{m}, n))
        different += numbers_on_host(*v) == wanted.results[m][n] ? 0 : 1;
  for (std::uint32_t i = 0; i < c.t.stages; ++i)
    if (p.rank_of(stage_id{i}) == start.rank)
      different += run.stages().bodies().gradient(stage_id{i}) == wanted.gradients[i] ? 0 : 1;
  return different;
}

/// Two ranks: measures the host's time of a group with one small message over NCCL, for both kinds of calls.
/// Rank 0 reports the means. \throws run_error where the other rank is lost
inline void measure_messages(process_start const& start) {
  using clock = std::chrono::steady_clock;
  constexpr std::size_t rounds = 50, groups = 64;
  for (auto const calls : {cleave::cuda::nccl_calls::blocking, cleave::cuda::nccl_calls::polled}) {
    auto joined = join_rendezvous(start);
    cleave::cuda::device device;
    device.use();
    nccl_rank rank(device, start.rank, {.calls = calls, .most_blocks = 2});
    auto stream = device.make_stream(-1);
    nccl_communicator all(rank, joined, start.rank, start.size);
    nccl_communicator messages(all, 0, index(start.rank));
    auto const peer = rank_id{1 - index(start.rank)};
    messages.warm_up({peer}, stream);
    auto const memory = device.allocate(8);
    auto ended = device.make_event();
    clock::duration took{};
    for (std::size_t round = 0; round < rounds; ++round) {
      joined.barrier(clock::now() + std::chrono::seconds(30));
      auto const begin = clock::now();
      for (std::uint32_t n = 0; n < groups; ++n) {
        messages.begin_group();
        if (start.rank == rank_id{0})
          messages.send({memory.data(), 8}, {peer, n, {}}, stream);
        else
          messages.receive({memory.data(), 8}, {peer, n, {}}, stream);
        messages.end_group(ended, stream);
      }
      took += clock::now() - begin;
      cleave::cuda::check(cudaStreamSynchronize(stream.handle()), "cudaStreamSynchronize");
    }
    double const each = std::chrono::duration<double, std::micro>(took).count() / (rounds * groups);
    bool const blocking = calls == cleave::cuda::nccl_calls::blocking;
    gpu_report report("processes");
    auto const what = std::string("a message through NCCL, ") + (blocking ? "blocking" : "polled") +
                      " calls, time of the host";
    if (start.rank != rank_id{0}) continue;
    if (blocking)
      report.measure(what, "8 us or less", text("%.1f us", each), each, each <= 8);
    else
      report.tell(what, text("%.1f us", each), each);
  }
}

}  // namespace cleave::testing
