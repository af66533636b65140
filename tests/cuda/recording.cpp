// SPDX-License-Identifier: MIT
#include "cleave/cuda/device.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/cuda/memory.hpp"
#include "support/cuda/fake_cuda.hpp"
#include "support/error_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;
using namespace std::chrono_literals;

namespace {

using sentences = std::vector<std::string>;

void increase_it(int*) {}

/// Numbers on a GPU that kernels increase, and two streams.
struct counting_gpu {
  cleave::cuda::device d;
  cleave::cuda::buffer numbers = d.allocate(4 * sizeof(int));
  cuda_stream a = d.make_stream(0), b = d.make_stream(0);
  cuda_event forked = d.make_event(), joined = d.make_event();

  counting_gpu() {
    bind_kernel(
        &increase_it, [](dim3, dim3, int* p) { ++*p; },
        [](fake_accesses& told, dim3, dim3, int* p) {
          told.reads(p, sizeof(int));
          told.writes(p, sizeof(int));
        });
    int const zeros[4] = {};
    cleave::cuda::check(cudaMemcpy(numbers.data(), zeros, sizeof zeros, cudaMemcpyHostToDevice),
                        "cudaMemcpy");
  }

  int* at(int i) const { return static_cast<int*>(numbers.data()) + i; }
  void increase(cuda_stream const& s, int* p) {
    void* parameters[] = {&p};
    cleave::cuda::check(cudaLaunchKernel(reinterpret_cast<void const*>(&increase_it), dim3(1), dim3(1),
                                         parameters, 0, s.handle()),
                        "cudaLaunchKernel");
  }
  int read(int i) {
    int n = 0;
    cleave::cuda::check(cudaStreamSynchronize(a.handle()), "cudaStreamSynchronize");
    cleave::cuda::check(cudaMemcpy(&n, at(i), sizeof n, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return n;
  }
  /// Increases one number on each stream, then both on the first.
  void issue() {
    d.record(forked, a);
    d.wait(b, forked);
    increase(a, at(0));
    increase(b, at(1));
    d.record(joined, b);
    d.wait(a, joined);
    increase(a, at(0));
    increase(a, at(1));
  }
};

}  // namespace

TEST_CASE("cuda::device: recorded work runs only when replayed, each time in its order") {
  fake_cuda fake({.seed = 3, .longest_delay = 100us});
  {
    counting_gpu g;
    g.d.begin_recording(g.a);
    g.issue();
    auto recorded = g.d.end_recording(g.a);
    CHECK(g.read(0) == 0);
    for (int i = 0; i < 3; ++i) g.d.replay(recorded, g.a);
    CHECK(g.read(0) == 6);
    CHECK(g.read(1) == 6);
    auto moved = std::move(recorded);
    g.issue();
    g.d.replay(moved, g.a);
    CHECK(g.read(0) == 10);
  }
  CHECK(fake.calls("cudaGraphLaunch") == 4);
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::device: drop_recording() discards the work, and later work runs at once") {
  fake_cuda fake;
  {
    counting_gpu g;
    for (bool const joined : {true, false}) {
      CAPTURE(joined);
      g.d.begin_recording(g.a);
      if (joined) {
        g.issue();
      } else {
        g.d.record(g.forked, g.a);
        g.d.wait(g.b, g.forked);
        g.increase(g.b, g.at(0));
      }
      g.d.drop_recording(g.a);
    }
    CHECK(g.read(0) == 0);
    g.issue();
    CHECK(g.read(0) == 2);
  }
  CHECK(fake.calls("cudaGraphInstantiateWithFlags") == 0);
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::device: an event recorded inside a recording counts as happened and gives no time") {
  fake_cuda fake;
  counting_gpu g;
  auto before = g.d.make_event(), inside = g.d.make_event(), later = g.d.make_event();
  g.d.record(before, g.a);
  g.read(0);
  g.d.begin_recording(g.a);
  g.d.wait(g.a, before);
  g.increase(g.a, g.at(0));
  g.d.record(inside, g.a);
  auto const recorded = g.d.end_recording(g.a);
  CHECK(g.d.query(inside));
  CHECK(g.d.elapsed(before, inside) == 0ns);
  g.d.wait(g.b, inside);
  g.increase(g.b, g.at(1));
  g.d.replay(recorded, g.a);
  g.d.record(later, g.a);
  CHECK(g.read(0) == 1);
  CHECK(g.d.query(later));
  CHECK(g.d.elapsed(before, later) > 0ns);
  g.d.record(inside, g.a);  // recorded normally again
  CHECK(g.read(0) == 1);
  CHECK(g.d.elapsed(later, inside) > 0ns);
  cleave::cuda::check(cudaStreamSynchronize(g.b.handle()), "cudaStreamSynchronize");
  CHECK(fake.reports() == sentences());
}

TEST_CASE("cuda::step_memory: memory taken and given back in a recording is valid in each replay") {
  fake_cuda fake;
  {
    counting_gpu g;
    cleave::cuda::step_memory memory(g.d.resources());
    g.d.begin_recording(g.a);
    auto* const p = memory.take(g.a.handle(), sizeof(int));
    cleave::cuda::check(cudaMemcpyAsync(p, g.at(0), sizeof(int), cudaMemcpyDefault, g.a.handle()),
                        "cudaMemcpyAsync");
    g.increase(g.a, static_cast<int*>(p));
    cleave::cuda::check(cudaMemcpyAsync(g.at(0), p, sizeof(int), cudaMemcpyDefault, g.a.handle()),
                        "cudaMemcpyAsync");
    memory.give_back(g.a.handle(), p);
    auto const recorded = g.d.end_recording(g.a);
    for (int i = 0; i < 3; ++i) g.d.replay(recorded, g.a);
    CHECK(g.read(0) == 3);
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::step_memory: memory taken in a recording and kept can be read after the replays") {
  fake_cuda fake;
  {
    counting_gpu g;
    cleave::cuda::step_memory memory(g.d.resources());
    g.d.begin_recording(g.a);
    auto* const p = memory.take(g.a.handle(), sizeof(int));
    cleave::cuda::check(cudaMemcpyAsync(p, g.at(0), sizeof(int), cudaMemcpyDefault, g.a.handle()),
                        "cudaMemcpyAsync");
    g.increase(g.a, static_cast<int*>(p));
    cleave::cuda::check(cudaMemcpyAsync(g.at(0), p, sizeof(int), cudaMemcpyDefault, g.a.handle()),
                        "cudaMemcpyAsync");
    auto recorded = std::optional(g.d.end_recording(g.a));
    for (int i = 0; i < 3; ++i) g.d.replay(*recorded, g.a);
    CHECK(g.read(0) == 3);
    int kept = 0;
    cleave::cuda::check(cudaMemcpy(&kept, p, sizeof kept, cudaMemcpyDeviceToHost), "cudaMemcpy");
    CHECK(kept == 3);
    recorded.reset();
    g.d.begin_recording(g.a);  // a recording that is never replayed leaves nothing
    memory.take(g.a.handle(), sizeof(int));
    static_cast<void>(g.d.end_recording(g.a));
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}

TEST_CASE("cuda::device: drop_recording() after a failure leaves no error for the next launch") {
  fake_cuda fake;
  counting_gpu g;
  g.d.begin_recording(g.a);
  static_cast<void>(cudaStreamSynchronize(g.a.handle()));
  static_cast<void>(cudaGetLastError());
  g.d.drop_recording(g.a);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK_NOTHROW(g.a.watch([&] { g.increase(g.a, g.at(0)); }));
  CHECK(g.read(0) == 1);
}

TEST_CASE("cuda::device: end_recording() explains what cannot be recorded, and the streams stay usable") {
  fake_cuda fake;
  {
    counting_gpu g;
    auto const end = [&] { return error_text([&] { g.d.end_recording(g.a); }); };
    g.d.begin_recording(g.a);
    static_cast<void>(cudaStreamSynchronize(g.a.handle()));  // its result is ignored
    CHECK(end() ==
          "device error: cudaStreamEndCapture: cudaErrorStreamCaptureInvalidated: operation failed due to a "
          "previous error during capture; while a step is recorded, a stage must not wait for the GPU, and "
          "may use only streams that are forked from its own and joined to it; otherwise let records() "
          "return false, or use step_mode::issued");
    g.d.begin_recording(g.a);
    g.d.record(g.forked, g.a);
    g.d.wait(g.b, g.forked);
    g.increase(g.b, g.at(0));
    CHECK(end().find("cudaErrorStreamCaptureUnjoined") != std::string::npos);
    fake.fail("cudaGraphInstantiateWithFlags", 1, cudaErrorMemoryAllocation);
    g.d.begin_recording(g.a);
    CHECK(end().find("cudaGraphInstantiateWithFlags: cudaErrorMemoryAllocation") != std::string::npos);
    g.issue();
    CHECK(g.read(0) == 2);
  }
  CHECK(fake.reports() == sentences());
  CHECK(fake.leaks() == sentences());
}
