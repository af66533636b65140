// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/nccl_registration.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/pipeline.hpp"
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
using registrations = cleave::cuda::nccl_registrations;
using linear_pipeline = cleave::cuda::pipeline<cuda_linear_engine>;

/// What two steps of two replicas of two ranks have done.
struct counted_run {
  std::size_t registered, windows, unregistered_in_steps;
  std::vector<linear_gradient> gradients;  // by rank
};

counted_run run_with(registrations how, cleave::cuda::nccl_calls calls,
                     cleave::cuda::nccl_reductions reductions) {
  rng random(7);
  auto const s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows), {.delivery = {.delivery = delivery::one_queue}});
  cleave::cuda::pipeline_options o;
  o.run.watchdog.limit = 30s;
  o.run.replicas = 2;
  o.messages = {.reductions = reductions, .calls = calls, .registrations = how};
  counted_run made = {0, 0, 0, std::vector<linear_gradient>(4)};
  fake_cuda fake(fake_gpus(4));
  auto const thrown = on_ranks(4, [&](process_start const& here) {
    linear_pipeline run(
        p, [&](cleave::cuda::device& d) { return linear_engines(c)(rank_id{0}, d); }, o, here);
    cuda_step const step(run.own_device(), c.values());
    run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
    auto const before = fake.unregistered_messages();
    run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
    for (int i = 0; i < 2; ++i) run.run_step(step.values());
    run.rendezvous().barrier(std::chrono::steady_clock::now() + 30s);
    if (here.rank == rank_id{0}) made.unregistered_in_steps = fake.unregistered_messages() - before;
    made.gradients[index(here.rank)] = run.stages().bodies().gradient(stage_id{run.place().pipe});
  });
  CHECK(thrown == lines(4));
  CHECK(fake.reports() == lines());
  CHECK(fake.leaks() == lines());
  made.registered = fake.calls("ncclCommRegister");
  made.windows = fake.calls("ncclCommWindowRegister");
  CHECK(fake.calls("ncclCommDeregister") == made.registered);
  CHECK(fake.calls("ncclCommWindowDeregister") == made.windows);
  return made;
}

}  // namespace

TEST_CASE("nccl_registration: all messages and sums of steps are in registered memory, with the same bits") {
  for (auto const calls : {cleave::cuda::nccl_calls::blocking, cleave::cuda::nccl_calls::polled})
    for (auto const reductions :
         {cleave::cuda::nccl_reductions::ordered, cleave::cuda::nccl_reductions::library}) {
      auto const plain = run_with(registrations::none, calls, reductions);
      CHECK(plain.registered == 0);
      CHECK(plain.windows == 0);
      CHECK(plain.unregistered_in_steps > 0);
      auto const buffers = run_with(registrations::buffers, calls, reductions);
      CHECK(buffers.registered > 0);
      CHECK(buffers.windows == 0);
      CHECK(buffers.unregistered_in_steps == 0);
      auto const windows = run_with(registrations::windows, calls, reductions);
      CHECK(windows.windows > 0);
      CHECK(windows.unregistered_in_steps == 0);
      CHECK(buffers.gradients == plain.gradients);
      CHECK(windows.gradients == plain.gradients);
    }
}

TEST_CASE("nccl_registration: a registration ends before its communicator, and without one there is none") {
  fake_cuda const fake(fake_gpus(2));
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    nccl_place here(s, {.registrations = registrations::buffers});
    auto const memory = here.device.allocate(512);
    nccl_registration moved;
    {
      nccl_communicator all(here.rank, here.rendezvous, s.rank, s.size);
      auto own = all.register_memory({memory.data(), 512, element_type::u8});
      moved = std::move(own);
      nccl_communicator alone(all, std::nullopt, 0);
      auto const none = alone.register_memory({memory.data(), 512, element_type::u8});
      moved = nccl_registration();
    }
  });
  CHECK(thrown == lines(2));
  CHECK(fake.calls("ncclCommRegister") == 2);
  CHECK(fake.calls("ncclCommDeregister") == 2);
  CHECK(fake.reports() == lines());
}

TEST_CASE("fake NCCL: reports a registration that its communicator or its memory does not outlive") {
  fake_cuda const fake(fake_gpus(1));
  ncclUniqueId id;
  CHECK(ncclGetUniqueId(&id) == ncclSuccess);
  ncclComm_t all = nullptr;
  CHECK(ncclCommInitRank(&all, 1, id, 0) == ncclSuccess);
  void *memory = nullptr, *handle = nullptr;
  CHECK(ncclMemAlloc(&memory, 4096) == ncclSuccess);
  CHECK(ncclCommRegister(all, memory, 4096, &handle) == ncclSuccess);
  CHECK(ncclMemFree(memory) == ncclSuccess);
  CHECK(ncclCommDestroy(all) == ncclSuccess);
  CHECK(fake.reports() ==
        lines{"ncclMemFree of memory that is registered with rank 0 of communicator 0",
              "ncclCommDestroy of rank 0 of communicator 0, with which 4096 bytes are registered"});
}

TEST_CASE("nccl_registration: the memory of a device comes from NCCL, whose failure is CUDA's") {
  fake_cuda fake(fake_gpus(1));
  cleave::cuda::device d;
  auto const before = d.allocate(64);
  take_memory_from_nccl(*d.resources());
  {
    auto const of_nccl = d.allocate(64);
  }
  CHECK(fake.calls("ncclMemAlloc") == 1);
  CHECK(fake.calls("ncclMemFree") == 1);
  fake.limit_memory(0, 100);
  CHECK_THROWS_WITH_AS(d.allocate(1 << 20), doctest::Contains("ncclMemAlloc"), cuda_error);
  CHECK(fake.reports() == lines());
}
