// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/cuda/check.hpp"

namespace cleave::detail {

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
    auto const last = cudaPeekAtLastError();
    is_own_ = last != cudaSuccess && last != cudaErrorNotReady;
    cudaGraph_t recorded = nullptr;
    auto const e = cudaStreamEndCapture(cudaStreamPerThread, &recorded);
    std::size_t count = 0;
    bool const any =
        e != cudaSuccess || cudaGraphGetNodes(recorded, nullptr, &count) != cudaSuccess || count > 0;
    is_own_ |= count > 0;
    if (recorded) static_cast<void>(cudaGraphDestroy(recorded));
    if (e != cudaSuccess) static_cast<void>(cudaGetLastError());
    return any;
  }

  /// Calls `f`. \throws error where work went to a default stream, from `f` or, which the error then leaves
  /// open, from another thread meanwhile; cuda_error
  template <class F>
  static void call(F const& f) {
    default_stream_guard guard;
    try {
      f();
    } catch (...) {
      if (guard.found()) guard.refuse();
      throw;
    }
    if (guard.found()) guard.refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw error(
        std::string("work was issued to a default stream of CUDA, or something waited for it") +
        (is_own_ ? "" : ", here or in what ran at the same time") +
        "; launch kernels on the stream that the stage is given, hand that to libraries, and copy with "
        "cudaMemcpyAsync");
  }

  bool ended_ = false;
  bool is_own_ = false;  // a call of this thread was refused, or recorded
};

}  // namespace cleave::detail
