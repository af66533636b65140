// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

#include "cleave/core/error.hpp"
#include "cleave/cuda/check.hpp"

namespace cleave {

/// Sees work that goes to the default streams of CUDA: where kernels go that are launched on no stream, and
/// nothing else waits for them. While it lives the thread's own default stream records what is issued to it;
/// CUDA then refuses work on the default stream of all threads, from any of them.
class default_stream_guard {
 public:
  /// \throws cuda_error
  default_stream_guard() {
    check_cuda(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed),
               "cudaStreamBeginCapture");
  }
  default_stream_guard(default_stream_guard&&) = delete;
  ~default_stream_guard() {
    if (!ended_) static_cast<void>(found());
  }

  /// Whether there was any so far; then it sees nothing more.
  bool found() noexcept {
    ended_ = true;
    cudaGraph_t recorded = nullptr;
    auto const e = cudaStreamEndCapture(cudaStreamPerThread, &recorded);
    std::size_t count = 0;
    bool const any =
        e != cudaSuccess || cudaGraphGetNodes(recorded, nullptr, &count) != cudaSuccess || count > 0;
    if (recorded) static_cast<void>(cudaGraphDestroy(recorded));
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
    return any;
  }

  /// Calls `f`. \throws error where work went to a default stream; cuda_error
  template <class F>
  static void call(F const& f) {
    default_stream_guard guard;
    try {
      f();
    } catch (...) {
      if (guard.found()) refuse();
      throw;
    }
    if (guard.found()) refuse();
  }

 private:
  [[noreturn]] static void refuse() {
    throw error(
        "work was issued to a default stream of CUDA, or something waited for it; launch kernels on the "
        "stream that the stage is given, hand that to libraries, and copy with cudaMemcpyAsync");
  }

  bool ended_ = false;
};

}  // namespace cleave
