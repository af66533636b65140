// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/pipeline.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// How NCCL's calls return to a rank, and what they wait for.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;
using linear_pipeline = cleave::cuda::pipeline<cuda_linear_engine>;
using cleave::cuda::nccl_calls;
using cleave::cuda::nccl_reductions;

/// Two replicas of a chain of two stages with a tie.
struct replicated_run {
  schedule s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  rng random{6};
  linear_chain model{s, random};
  step_plan plan{
      s, model.t, linear_layouts(model.t, model.rows), {.delivery = {.delivery = delivery::one_queue}}};
};

cleave::cuda::pipeline_options replicated(nccl_calls calls, nccl_reductions reductions) {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 30s;
  o.run.replicas = 2;
  o.run.ties = {{{stage_id{0}, 0}, {stage_id{1}, 0}}};
  o.messages.calls = calls;
  o.messages.reductions = reductions;
  return o;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

}  // namespace

TEST_CASE("cuda::pipeline: steps open no connection, and blocking calls start no thread for a group") {
  replicated_run const x;
  for (auto const calls : {nccl_calls::blocking, nccl_calls::polled})
    for (auto const reductions : {nccl_reductions::ordered, nccl_reductions::library}) {
      CAPTURE(static_cast<int>(calls));
      CAPTURE(static_cast<int>(reductions));
      fake_cuda fake(fake_gpus(4));
      auto const thrown = on_ranks(4, [&](process_start const& s) {
        linear_pipeline run(
            x.plan, [&](cleave::cuda::device& d) { return linear_engines(x.model)(rank_id{0}, d); },
            replicated(calls, reductions), s);
        cuda_step const step(run.own_device(), x.model.values());
        auto const meet = [&] { run.rendezvous().barrier(std::chrono::steady_clock::now() + 20s); };
        meet();
        auto const opened = fake.connecting_groups(), threads = fake.group_threads();
        meet();
        run.run_step(step.values());
        run.update();
        meet();
        CHECK(fake.connecting_groups() == opened);
        CHECK((fake.group_threads() == threads) == (calls == nccl_calls::blocking));
        meet();
      });
      CHECK(thrown == lines(4));
      CHECK(fake.reports() == lines());
      CHECK(fake.leaks() == lines());
    }
}

TEST_CASE("cuda::pipeline: a rank that is late in its first step does not fail the sums of the others") {
  replicated_run const x;
  fake_cuda const fake(fake_gpus(4));
  auto const thrown = on_ranks(4, [&](process_start const& s) {
    bool late = s.rank == rank_id{3};
    auto const prepare = [&](stage_pass const&) {
      if (late) std::this_thread::sleep_for(1500ms);
      late = false;
    };
    auto o = replicated(nccl_calls::polled, nccl_reductions::library);
    o.messages.settle_within = 500ms;
    linear_pipeline run(
        x.plan, [&](cleave::cuda::device& d) { return linear_engines(x.model, prepare)(rank_id{0}, d); }, o,
        s);
    cuda_step const step(run.own_device(), x.model.values());
    run.run_step(step.values());
  });
  CHECK(thrown == lines(4));
}

TEST_CASE("nccl_rank: abort_all() ends communicators whose running messages wait for each other") {
  fake_cuda fake(fake_gpus(2));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    nccl_place here(s, {.abort_within = 20s});
    nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
    nccl_communicator messages(all, 0, index(s.rank));
    nccl_communicator sums(all, 0, index(s.rank), nccl_communicator::use::sums);
    auto const memory = here.device.allocate(8);
    region const one{memory.data(), 1, element_type::f64};
    auto other = here.device.make_stream(0);
    auto const peer = rank_id{1 - index(s.rank)};
    messages.warm_up({peer}, here.stream);
    sums.warm_up({peer}, here.stream);
    auto summed = here.device.make_event(), received = here.device.make_event();
    if (s.rank == rank_id{0}) {
      sums.begin_group();
      sums.all_reduce(one, reduce_op::sum, 0, other);  // the other rank takes no part
      sums.end_group(summed, other);
      here.device.wait(here.stream, summed);
      messages.begin_group();
      messages.receive(one, {peer, 0, {}}, here.stream);
      messages.end_group(received, here.stream);
    }
    here.rendezvous.barrier(std::chrono::steady_clock::now() + 10s);
    auto const begin = std::chrono::steady_clock::now();
    here.rank.publish({.code = failure_code::cancelled, .detail = "enough"});
    here.rank.abort_all();
    CHECK(seconds_since(begin) < 15);
    CHECK(!here.device.resources()->is_kept());
  });
  CHECK(thrown == lines(2));
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
}

TEST_CASE("nccl_rank: abort_all() leaves messages behind a kernel that never ends, and frees nothing") {
  for (auto const calls : {nccl_calls::blocking, nccl_calls::polled}) {
    fake_cuda fake(fake_gpus(2));
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      nccl_place here(s, {.calls = calls, .abort_within = s.rank == rank_id{0} ? 200ms : 20'000ms});
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      nccl_communicator messages(all, 0, index(s.rank));
      auto const memory = here.device.allocate(8);
      region const one{memory.data(), 1, element_type::f64};
      auto const peer = rank_id{1 - index(s.rank)};
      messages.warm_up({peer}, here.stream);
      auto ended = here.device.make_event();
      here.rendezvous.barrier(std::chrono::steady_clock::now() + 10s);  // sums run in all of it before
      if (s.rank == rank_id{0}) {
        fake.hang("reduce_kernel", 1);
        launch_sum_in_order(here.stream.handle(), std::span(&one, 1), reduce_op::sum, 1);
      }
      messages.begin_group();
      if (s.rank == rank_id{0}) messages.receive(one, {peer, 0, {}}, here.stream);
      messages.end_group(ended, here.stream);
      auto const begin = std::chrono::steady_clock::now();
      here.rank.publish({.code = failure_code::cancelled, .detail = "enough"});
      here.rank.abort_all();
      CHECK(seconds_since(begin) < 15);
      CHECK(here.device.resources()->is_kept() == (s.rank == rank_id{0}));
    });
    CHECK(thrown == lines(2));
    CHECK(fake.reports() == lines());
    fake.release();
  }
}
