// SPDX-License-Identifier: MIT
#include "cleave/cuda/detail/stream.hpp"

#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cleave/cuda/threads.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;

void set(cudaStream_t s, cleave::cuda::buffer const& b) {
  static_cast<void>(cudaMemsetAsync(b.data(), 0, b.size(), s));
}

}  // namespace

TEST_CASE("default_stream_guard: detects work on the default streams and allows work on any other stream") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const b = d.allocate(256);
  auto const s = d.make_stream(0);
  CHECK_NOTHROW(default_stream_guard::call([&] { set(s.handle(), b); }));
  for (auto const wrong : {cudaStream_t{}, cudaStreamLegacy, cudaStreamPerThread}) {
    CHECK_THROWS_AS(default_stream_guard::call([&] { set(wrong, b); }), error);
    CHECK_NOTHROW(default_stream_guard::call([&] { set(s.handle(), b); }));
  }
  CHECK_THROWS_AS(default_stream_guard::call(
                      [&] { static_cast<void>(cudaMemcpy(b.data(), b.data(), 8, cudaMemcpyDefault)); }),
                  error);
  CHECK_THROWS_AS(default_stream_guard::call([] { throw std::out_of_range("no such row"); }),
                  std::out_of_range);
  CHECK_THROWS_AS(default_stream_guard::call([&] {
                    set(nullptr, b);
                    throw std::runtime_error("refused");
                  }),
                  error);
  CHECK(fake.reports() == std::vector<std::string>());
}

TEST_CASE("default_stream_guard: says when the default-stream work may come from another thread") {
  fake_cuda fake;
  cleave::cuda::device d;
  auto const b = d.allocate(256);
  auto const said = [](auto const& f) {
    try {
      default_stream_guard::call(f);
    } catch (error const& e) {
      return std::string(e.what());
    }
    return std::string("nothing");
  };
  std::string culprit;
  auto const bystander = said([&] { std::jthread([&] { culprit = said([&] { set(nullptr, b); }); }); });
  CHECK(
      culprit.starts_with("work was issued to a default stream of CUDA, or something waited for it; launch"));
  CHECK(bystander.find("something waited for it, by this stage or by concurrent code; launch") !=
        std::string::npos);
  CHECK(fake.reports() == std::vector<std::string>());
}

TEST_CASE("default_stream_guard: with checks::streams, a step fails if a stage uses a default stream") {
  rng random(3);
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 3});
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  for (bool const wrong : {false, true}) {
    fake_cuda fake;
    cleave::cuda::device d;
    cuda_step const step(d, c.values());
    auto const b = d.allocate(256);
    auto const prepare = [&](stage_pass const& at) {
      if (wrong && at.stage == stage_id{1} && at.microbatch == microbatch_id{2}) set(nullptr, b);
    };
    cuda_linear_run run(p, linear_engines(c, prepare), {.watchdog = {.limit = 20s}},
                        {.of_each = {.checks = cleave::cuda::checks::streams}});
    if (!wrong) {
      run.run_step(step.values());
      fake.threads_met();
      CHECK(outcome_of(run, p, c) == outcome_on_host(p, c));
      continue;
    }
    try {
      run.run_step(step.values());
      FAIL("the step ended");
    } catch (stage_error const& e) {
      auto const said = std::string(e.what());
      bool const is_culprit = said.starts_with("rank 1, forward, stage 1, microbatch 2: ");
      CHECK(said.find("work was issued to a default stream of CUDA") != std::string::npos);
      bool const leaves_open = said.find("by this stage or by concurrent code") != std::string::npos;
      CHECK_MESSAGE((is_culprit || leaves_open),
                    said);  // a call by the stage may have cleared CUDA's last error
    }
  }
}

TEST_CASE("cuda::thread_pipeline: a CUDA error that a stage ignores becomes a failure of that pass") {
  rng random(4);
  auto const s = make_schedule(schedule_family::one_f_one_b, {2, 1, 2});
  linear_chain const c(s, random);
  step_plan const p(s, c.t, linear_layouts(c.t, c.rows));
  fake_cuda fake;
  cleave::cuda::device d;
  cuda_step const step(d, c.values());
  auto const b = d.allocate(256);
  auto const prepare = [&](stage_pass const& at) {
    if (at.stage != stage_id{1} || at.microbatch != microbatch_id{1}) return;
    fake.fail("cudaMemsetAsync", 1, cudaErrorInvalidValue);
    set(nullptr, b);
  };
  cuda_linear_run run(p, linear_engines(c, prepare), {.watchdog = {.limit = 20s}});
  try {
    run.run_step(step.values());
    FAIL("the step ended");
  } catch (run_error const& e) {
    CHECK(std::string(e.what()).starts_with("rank 1, forward, stage 1, microbatch 1: device error: "));
    CHECK(std::string(e.what()).find("cudaErrorInvalidValue") != std::string::npos);
  }
}

TEST_CASE("cuda_stream: watch() ignores cudaErrorNotReady but reports other CUDA errors") {
  for (auto const checks : {cleave::cuda::checks::none, cleave::cuda::checks::streams}) {
    fake_cuda fake;
    cleave::cuda::device d({.checks = checks});
    auto const b = d.allocate(256);
    auto const s = d.make_stream(0);
    auto const ask = [&] {
      fake.fail("cudaEventQuery", 1, cudaErrorNotReady);
      auto const e = d.resources()->take_event();
      CHECK(cudaEventQuery(e) == cudaErrorNotReady);
      d.resources()->give_event(e);
      set(s.handle(), b);
    };
    CHECK_NOTHROW(s.watch(ask));
    ask();
    CHECK(cudaStreamSynchronize(s.handle()) == cudaSuccess);
    CHECK(d.sum_of_squares(std::array{region{b.data(), 32, element_type::f64}}) == 0);
    auto const refused = [&] {
      set(s.handle(), b);
      fake.fail("cudaMemsetAsync", 1, cudaErrorInvalidValue);
      set(s.handle(), b);
    };
    CHECK_THROWS_AS(s.watch(refused), error);
  }
}
