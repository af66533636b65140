// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/adopted_communicator.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <string>
#include <vector>

#include "../examples/frameworks/cuda/adopted.hpp"
#include "cleave/cuda/pipeline.hpp"
#include "cleave/cuda/threads.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/schedule/model/schedule_names.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using lines = std::vector<std::string>;
using adopted = cleave::cuda::adopted_communicator;
using linear_pipeline = cleave::cuda::pipeline<cuda_linear_engine>;

/// A communicator and a stream that a program has made before it uses the library.
struct callers_own : example::callers_own {
  callers_own(ncclUniqueId const& id, int rank, int size, int on) {
    gpu = on;
    cleave::cuda::check(cudaSetDevice(gpu), "cudaSetDevice");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CHECK(ncclCommInitRankConfig(&communicator, size, id, rank, &config) == ncclSuccess);
    cleave::cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
                        "cudaStreamCreateWithFlags");
  }
};

struct chain_of_two {
  schedule order = family_schedule(schedule_family::one_f_one_b, 2, 4);
  rng random{7};
  linear_chain model{order, random};
  step_plan plan{
      order, model.t, linear_layouts(model.t, model.rows), {.delivery = {.delivery = delivery::one_queue}}};
};

cleave::cuda::pipeline_options patient() {
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 20s;
  o.messages = {.connect_within = 20s, .abort_within = 5s, .finish_within = 200ms};
  o.device.drain_within = 500ms;
  return o;
}

}  // namespace

TEST_CASE("cuda::adopted_communicator: a run splits its own from it and leaves it to the caller") {
  for (auto const calls : {cleave::cuda::nccl_calls::blocking, cleave::cuda::nccl_calls::polled}) {
    chain_of_two const chain;
    fake_cuda const fake(fake_gpus(2));
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    std::latch ended(2);  // cudaFreeHost waits for all GPUs of a process, also for a sum that lacks this rank
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      auto const rank = static_cast<int>(index(s.rank));
      callers_own own(id, rank, 2, rank);
      auto o = example::options_with(own);
      o.run.watchdog.limit = 20s;
      o.messages.calls = calls;
      for (int run_number = 0; run_number < 2; ++run_number) {
        linear_pipeline run(
            chain.plan, [&](cleave::cuda::device& d) { return linear_engines(chain.model)(s.rank, d); }, o,
            s);
        CHECK(run.own_device().make_stream(0).handle() == own.stream);
        CHECK(run.own_device().make_stream(-1).handle() != own.stream);
        cuda_step const step(run.own_device(), chain.model.values());
        run.run_step(step.values());
      }
      // both are still the caller's, and work
      auto const memory = cleave::cuda::device({.device = rank}).allocate(sizeof(double));
      ended.arrive_and_wait();
      CHECK(ncclAllReduce(memory.data(), memory.data(), 1, ncclFloat64, ncclSum, own.communicator,
                          own.stream) == ncclSuccess);
      CHECK(cudaStreamSynchronize(own.stream) == cudaSuccess);
      CHECK(ncclCommFinalize(own.communicator) == ncclSuccess);
      CHECK(ncclCommDestroy(own.communicator) == ncclSuccess);
      CHECK(cudaStreamDestroy(own.stream) == cudaSuccess);
    });
    CHECK(thrown == lines(2));
    CHECK(fake.calls("ncclCommInitRankConfig") == 2);
    CHECK(fake.calls("ncclCommAbort") == 0);
    for (auto const& text : fake.reports()) CHECK(text == "");
    CHECK(fake.leaks() == lines());
  }
}

TEST_CASE("cuda::adopted_communicator: after a failure it is aborted only if the caller has said so") {
  for (auto const then : {adopted::on_failure::left, adopted::on_failure::aborted}) {
    chain_of_two const chain;
    fake_cuda fake(fake_gpus(2));
    ncclUniqueId id;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    std::latch connected(
        2);  // a rank that fails while another one still splits would leave it without a communicator
    auto const thrown = on_ranks(2, [&](process_start const& s) {
      auto const rank = static_cast<int>(index(s.rank));
      callers_own own(id, rank, 2, rank);
      auto o = patient();
      o.communicator = {.handle = own.communicator, .on_failure = then};
      auto const suffer = [&](stage_pass const&) {
        if (rank == 1) throw error("a stage fails");
      };
      try {
        linear_pipeline run(
            chain.plan,
            [&](cleave::cuda::device& d) { return linear_engines(chain.model, suffer)(s.rank, d); }, o, s);
        cuda_step const step(run.own_device(), chain.model.values());
        connected.arrive_and_wait();
        run.run_step(step.values());
      } catch (std::exception const&) {
        if (then == adopted::on_failure::left) CHECK(ncclCommAbort(own.communicator) == ncclSuccess);
        CHECK(cudaStreamDestroy(own.stream) == cudaSuccess);
        throw;
      }
    });
    for (auto const& t : thrown) CHECK(t.find("a stage fails") != t.npos);
    CHECK(fake.calls("ncclCommAbort") == 4);  // of each rank, its own and that for messages, by whom it may
    CHECK(fake.reports() == lines());
  }
}

TEST_CASE("cuda::adopted_communicator: one of other ranks or another GPU is refused") {
  using kind = adopted_communicator_fault::kind;
  fake_cuda const fake(fake_gpus(2));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  callers_own own(id, 0, 1, 0);
  cleave::cuda::device first({.device = 0}), second({.device = 1});
  nccl_rank const here(first, rank_id{0}), elsewhere(second, rank_id{0});
  auto const fault = [&](nccl_rank const& r, rank_id rank, std::uint32_t size) {
    try {
      require_adoptable(r, own.communicator, rank, size);
    } catch (adopted_communicator_error const& e) {
      CHECK(describe(e.witness) != "");
      return e.witness;
    }
    FAIL("not refused");
    return adopted_communicator_fault{};
  };
  require_adoptable(here, own.communicator, rank_id{0}, 1);
  CHECK(fault(here, rank_id{0}, 2) == adopted_communicator_fault{kind::size, 1, 2});
  CHECK(fault(here, rank_id{1}, 1) == adopted_communicator_fault{kind::rank, 0, 1});
  CHECK(fault(elsewhere, rank_id{0}, 1) == adopted_communicator_fault{kind::gpu, 0, 1});
  CHECK(ncclCommDestroy(own.communicator) == ncclSuccess);
  CHECK(cudaStreamDestroy(own.stream) == cudaSuccess);
}

TEST_CASE("cuda::options::passes: a default stream is refused, and threads do not share one") {
  fake_cuda const fake(fake_gpus(1));
  CHECK_THROWS_WITH_AS(cleave::cuda::device({.passes = cudaStreamLegacy}),
                       doctest::Contains("default stream of CUDA"), error);
  cudaStream_t mine = nullptr;
  CHECK(cudaStreamCreateWithFlags(&mine, cudaStreamNonBlocking) == cudaSuccess);
  host_ranks ranks(1);
  cleave::cuda::threads shared{.of_each = {.passes = mine}};
  CHECK_THROWS_WITH_AS(shared.make_device(ranks, rank_id{0}), doctest::Contains("several ranks"), error);
  CHECK(cudaStreamDestroy(mine) == cudaSuccess);
}
