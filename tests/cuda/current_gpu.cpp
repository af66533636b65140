// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/pipeline.hpp"
#include "cleave/cuda/threads.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/cuda/nccl_ranks.hpp"
#include "support/linear_chain.hpp"
#include "support/random_schedule.hpp"
#include "support/rng.hpp"

/// The current GPU in calls by users and in calls to their stages.
using namespace cleave;
using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;

int current_gpu() {
  int n = -1;
  cleave::cuda::check(cudaGetDevice(&n), "cudaGetDevice");
  return n;
}

/// The calls in which the current GPU was not that of the rank, from any thread.
class wrong_places {
 public:
  void note(char const* where, int gpu) {
    if (current_gpu() == gpu) return;
    std::lock_guard lock(mutex_);
    all_.push_back(std::string(where) + " on GPU " + std::to_string(current_gpu()));
  }
  sentences all() {
    std::lock_guard lock(mutex_);
    return all_;
  }

 private:
  std::mutex mutex_;
  sentences all_;
};

/// Memory allocated on the current GPU, without naming it, as libraries do.
class plain_memory {
 public:
  plain_memory(wrong_places& seen, int gpu) : seen_(seen), gpu_(gpu) {
    cleave::cuda::check(cudaMalloc(&data_, 64), "cudaMalloc");
    seen_.note("begin", gpu_);
    cudaPointerAttributes of = {};
    cleave::cuda::check(cudaPointerGetAttributes(&of, data_), "cudaPointerGetAttributes");
    CHECK(of.device == gpu);
  }
  plain_memory(plain_memory&&) = delete;
  ~plain_memory() {
    seen_.note("end", gpu_);
    static_cast<void>(cudaFree(data_));
  }
  void note(char const* where) { seen_.note(where, gpu_); }

 private:
  wrong_places& seen_;
  int gpu_;
  void* data_ = nullptr;
};

/// Linear stages that check the current GPU in every call.
struct looking_bodies : linear_bodies {
  std::shared_ptr<plain_memory> own;

  looking_bodies(wrong_places& seen, cleave::cuda::device& d, std::vector<linear_stage> const& stages)
      : linear_bodies(d, stages), own(std::make_shared<plain_memory>(seen, d.number())) {}

  void forward(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    own->note("forward");
    linear_bodies::forward(s, p, in, out);
  }
  std::span<region const> gradients(stage_id s) {
    own->note("gradients");
    return linear_bodies::gradients(s);
  }
  std::span<region const> parameters(stage_id s) {
    own->note("parameters");
    return linear_bodies::parameters(s);
  }
  void update(cudaStream_t s, stage_id i, double factor) {
    own->note("update");
    linear_bodies::update(s, i, factor);
  }
};
using looking_stages = cleave::cuda::callable_stage<looking_bodies>;

struct chain_of_two {
  schedule s = family_schedule(schedule_family::one_f_one_b, 2, 4);
  rng random{8};
  linear_chain model{s, random};
  step_plan plan{
      s, model.t, linear_layouts(model.t, model.rows), {.delivery = {.delivery = delivery::one_queue}}};
};

}  // namespace

TEST_CASE(
    "cuda::device: construction keeps the current GPU; scope() switches it for a scope, use() for good") {
  fake_cuda fake({.devices = {3, fake_gpu()}});
  cleave::cuda::check(cudaSetDevice(1), "cudaSetDevice");
  cleave::cuda::device d({.device = 2});
  CHECK(current_gpu() == 1);
  {
    auto const here = d.scope();
    CHECK(current_gpu() == 2);
  }
  CHECK(current_gpu() == 1);
  CHECK_THROWS_AS(cleave::cuda::device({.device = 3}), cuda_error);
  CHECK(current_gpu() == 1);
  d.use();
  CHECK(current_gpu() == 2);
}

TEST_CASE(
    "cuda::thread_pipeline: each rank's GPU is current in every stage call, and the caller keeps its own") {
  chain_of_two const x;
  fake_cuda fake({.devices = {3, fake_gpu()}});
  wrong_places seen;
  {
    cleave::cuda::device first({.device = 1});
    cuda_step const step(first, x.model.values());
    cleave::cuda::check(cudaSetDevice(2), "cudaSetDevice");
    cleave::cuda::thread_pipeline<looking_stages> run(
        x.plan,
        [&](rank_id, cleave::cuda::device& d) {
          return looking_stages(looking_bodies(seen, d, x.model.stages));
        },
        {.watchdog = {.limit = 20s}, .replicas = 2}, {.gpus = {1, 0}});
    CHECK(current_gpu() == 2);
    run.add_plan(x.plan);
    run.share_ties();
    run.run_step(std::vector(2, step.values()));
    run.update();
    CHECK(current_gpu() == 2);
  }
  CHECK(current_gpu() == 2);
  CHECK(seen.all() == sentences());
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE(
    "cuda::thread_pipeline: failed setup keeps the caller's GPU and destroys made stages on their own GPU") {
  chain_of_two const x;
  fake_cuda fake({.devices = {2, fake_gpu()}});
  wrong_places seen;
  auto const make = [&](rank_id r, cleave::cuda::device& d) {
    if (r == rank_id{1}) throw error("no room");
    return looking_stages(looking_bodies(seen, d, x.model.stages));
  };
  CHECK_THROWS_WITH_AS(cleave::cuda::thread_pipeline<looking_stages>(x.plan, make, {}, {.gpus = {1, 0}}),
                       "no room", error);
  CHECK(current_gpu() == 0);
  CHECK(seen.all() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::pipeline: each process's GPU is current in every stage call, and the caller keeps its own") {
  chain_of_two const x;
  fake_cuda fake(fake_gpus(2));
  wrong_places seen;
  auto const thrown = on_ranks(2, [&](process_start const& s) {
    auto const other = 1 - static_cast<int>(index(s.rank));
    cleave::cuda::check(cudaSetDevice(other), "cudaSetDevice");
    {
      cleave::cuda::pipeline_options o;
      o.run.watchdog.limit = 20s;
      o.gpu = static_cast<int>(index(s.rank));
      cleave::cuda::pipeline<looking_stages> run(
          x.plan,
          [&](cleave::cuda::device& d) { return looking_stages(looking_bodies(seen, d, x.model.stages)); }, o,
          s);
      cuda_step const step(run.own_device(), x.model.values());
      CHECK(current_gpu() == other);
      run.share_ties();
      run.run_step(step.values());
      run.update();
      run.add_plan(x.plan);
      run.run_step(step.values(), 1);
      CHECK(current_gpu() == other);
    }
    CHECK(current_gpu() == other);
  });
  for (auto const& text : thrown) CHECK(text == "");
  CHECK(seen.all() == sentences());
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}
