// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "cleave/cuda/threads.hpp"
#include "cleave/schedule/families/generate.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_runs.hpp"
#include "support/linear_chain.hpp"
#include "support/rng.hpp"

/// Any failure in a run on GPUs ends it in time with a one-sentence error, and no memory in use is
/// freed.
using namespace cleave;
using namespace cleave::testing;

namespace {

using namespace std::chrono_literals;
using sentences = std::vector<std::string>;
using steady = std::chrono::steady_clock;

struct failing_case {
  schedule s = make_schedule(schedule_family::zbv, {2, 2, 3});
  linear_chain c;
  step_plan p;

  explicit failing_case(rng& random) : c(s, random), p(s, c.t, linear_layouts(c.t, c.rows)) {}
};

/// Calls `f` in pass number `at` of a run, counted over all ranks.
std::function<void(stage_pass const&)> in_pass(std::atomic<std::size_t>& passes, std::size_t at,
                                               std::function<void(stage_pass const&)> f) {
  return [&passes, at, f](stage_pass const& p) {
    if (passes++ == at) f(p);
  };
}

struct ending {
  std::optional<failure> why = {};
  std::string said = {};
  steady::duration took = {};  ///< including the destruction of the run
};

ending run_of(failing_case const& f, std::function<void(stage_pass const&)> prepare,
              pipeline_options const& options, std::chrono::milliseconds drain_within = 5s) {
  ending e;
  auto const begin = steady::now();
  {
    cleave::cuda::device d;
    cuda_step const step(d, f.c.values());
    cuda_linear_run run(f.p, linear_engines(f.c, std::move(prepare)), options,
                        {.of_each = {.drain_within = drain_within}});
    try {
      run.run_step(step.values());
    } catch (run_error const& error) {
      e.why = error.info;
      e.said = error.what();
      CHECK_THROWS_AS(run.run_step(step.values()), run_error);  // the run is over
    }
    d.drain();  // steps of other ranks may still read the caller's values
    if (e.why && e.why->code == failure_code::timeout) d.keep();
  }
  e.took = steady::now() - begin;
  return e;
}

}  // namespace

TEST_CASE(
    "cuda::thread_pipeline: an exception in any pass ends the step with the pass named, and nothing leaks") {
  rng random(3);
  failing_case const f(random);
  for (std::size_t at = 0;; at += 4) {
    fake_cuda fake({.seed = at, .longest_delay = 100us});
    std::atomic<std::size_t> passes = 0;
    stage_pass sprung;
    auto const e = run_of(f,
                          in_pass(passes, at,
                                  [&](stage_pass const& p) {
                                    sprung = p;
                                    throw std::out_of_range("no such row");
                                  }),
                          {.watchdog = {.limit = 20s}});
    CHECK(fake.reports() == sentences());
    CHECK(fake.leaks() == sentences());
    if (!e.why) {
      CHECK(at == 4u * 3 * 3);  // F, I or B, W of four stages and three microbatches
      break;
    }
    CAPTURE(at);
    CHECK(e.why->code == failure_code::stage);
    CHECK(e.said.ends_with("stage " + std::to_string(index(sprung.stage)) + ", microbatch " +
                           std::to_string(index(sprung.microbatch)) + ": no such row"));
  }
}

TEST_CASE("cuda::thread_pipeline: a GPU failure during a step ends it and points to compute-sanitizer") {
  rng random(4);
  failing_case const f(random);
  for (std::size_t at = 0; at < 36; at += 5) {
    fake_cuda fake;
    std::atomic<std::size_t> passes = 0;
    auto const e = run_of(
        f, in_pass(passes, at, [&](stage_pass const&) { fake.fail_device(0, cudaErrorIllegalAddress); }),
        {.watchdog = {.limit = 20s}});
    CAPTURE(at);
    REQUIRE(e.why);
    CHECK(e.why->code == failure_code::device);
    CHECK(e.said.find("cudaErrorIllegalAddress: ") != e.said.npos);
    CHECK(e.said.ends_with("an earlier kernel caused the error; run compute-sanitizer to find it"));
    CHECK(e.took < 20s);
    static_cast<void>(fake.reports());
  }
}

TEST_CASE("cuda::thread_pipeline: running out of memory during a step is reported, and nothing leaks") {
  rng random(5);
  failing_case const f(random);
  fake_cuda fake;
  std::atomic<std::size_t> passes = 0;
  auto const e = run_of(f, in_pass(passes, 7, [&](stage_pass const&) { fake.limit_memory(0, 1); }),
                        {.watchdog = {.limit = 20s}});
  REQUIRE(e.why);
  CHECK(e.why->code == failure_code::device);
  CHECK(e.said.find("cannot allocate ") != e.said.npos);
  CHECK(e.said.find("bytes in the memory of GPU 0 (") != e.said.npos);
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::thread_pipeline: a kernel that never ends times out, and memory it may use is not freed") {
  rng random(6);
  failing_case const f(random);
  for (auto const* const kernel : {"linear_forward", "linear_backward", "linear_weights"})
    for (std::size_t nth : {kernel[7] == 'f' ? 1u : 5u}) {
      fake_cuda fake;
      fake.hang(kernel, nth);
      auto const e = run_of(f, {}, {.watchdog = {.limit = 1000ms}}, 100ms);
      CAPTURE(kernel);
      CAPTURE(nth);
      REQUIRE(e.why);
      CHECK(e.why->code == failure_code::timeout);
      CHECK(e.said.find("the step did not finish within 1000 ms") != e.said.npos);
      CHECK(e.took < 20s);
      CHECK_FALSE(fake.leaks().empty());
      CHECK(fake.reports() == sentences());
    }
}

TEST_CASE("cuda::thread_pipeline: a CUDA call that fails during a step ends it with the CUDA error") {
  rng random(7);
  failing_case const f(random);
  for (auto const* const call :
       {"cudaStreamWaitEvent", "cudaEventRecord", "cudaMemcpyAsync", "cudaLaunchKernel"})
    for (std::size_t nth : {1u, 9u}) {
      fake_cuda fake;
      std::atomic<std::size_t> passes = 0;
      auto const e = run_of(
          f, in_pass(passes, 0, [&](stage_pass const&) { fake.fail(call, nth, cudaErrorInvalidValue); }),
          {.watchdog = {.limit = 20s}});
      CAPTURE(call);
      CAPTURE(nth);
      REQUIRE(e.why);
      CHECK(e.why->code == failure_code::device);
      CHECK(e.said.find(": cudaErrorInvalidValue: ") != e.said.npos);
      CHECK(fake.reports() == sentences());
      CHECK(fake.leaks() == sentences());
    }
}
