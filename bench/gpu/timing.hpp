// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "cleave/cuda/device.hpp"
#include "measure.hpp"

/// Measures work on a GPU.
namespace bench {

using namespace cleave;

using namespace cleave::detail;

inline double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A GPU, a stream and two timing events.
class gpu_clock {
 public:
  cleave::cuda::device device;
  cuda_stream stream = device.make_stream(0);

  /// GPU seconds of one call of `issue(turn)`: the spread of `runs` measurements, each with enough calls for
  /// a millisecond. `turn` counts up, so that calls can use different data.
  template <class F>
  spread seconds(std::size_t runs, F issue) {
    std::size_t turn = 0;
    auto const measure = [&](std::size_t calls) {
      device.record(begin_, stream);
      for (std::size_t i = 0; i < calls; ++i) issue(turn++);
      device.record(end_, stream);
      finish();
      return std::chrono::duration<double>(device.elapsed(begin_, end_)).count() / static_cast<double>(calls);
    };
    measure(2);
    auto const calls = static_cast<std::size_t>(std::clamp(1e-3 / std::max(measure(2), 1e-9), 1.0, 200.0));
    return repeat(runs, [&] { return measure(calls); });
  }
  /// Wall-clock seconds from the call of `issue` until the GPU has finished its work.
  template <class F>
  spread wall(std::size_t runs, F issue) {
    issue(), finish();
    return repeat(runs, [&] {
      auto const begin = wall_seconds();
      issue();
      finish();
      return wall_seconds() - begin;
    });
  }
  /// Host seconds of `issue`, starting with an idle GPU.
  template <class F>
  spread host(std::size_t runs, F issue) {
    issue(), finish();
    return repeat(runs, [&] {
      auto const begin = wall_seconds();
      issue();
      auto const took = wall_seconds() - begin;
      finish();
      return took;
    });
  }
  void finish() {
    cleave::cuda::check(cudaGetLastError(), "launch");
    cleave::cuda::check(cudaStreamSynchronize(stream.handle()), "cudaStreamSynchronize");
  }

 private:
  cuda_event begin_ = device.make_event(), end_ = device.make_event();
};

}  // namespace bench
