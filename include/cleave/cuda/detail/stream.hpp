// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/profiler_range.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::inline v0_2::detail {

/// Detects work on CUDA's default streams. Kernels launched without a stream use them, and no other work
/// waits for them. While the guard lives, the thread's default stream is in capture mode. CUDA then rejects
/// work on the legacy default stream from any thread.
class default_stream_guard {
 public:
  /// \throws cuda_error
  default_stream_guard() {
    cuda::check(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeRelaxed),
                "cudaStreamBeginCapture");
  }
  default_stream_guard(default_stream_guard&&) = delete;
  ~default_stream_guard() {
    if (!ended_) static_cast<void>(found());
  }

  /// Ends the detection. Returns true if there was any such work.
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

  /// Calls `f` and checks it.
  /// \throws error if work went to a default stream, from `f` or concurrently from another thread (the error
  ///   says if that is unclear); cuda_error
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
    throw error(std::string("work was issued to a default stream of CUDA, or something waited for it") +
                (is_own_ ? "" : ", by this stage or by concurrent code") +
                "; launch kernels on the stream passed to the stage, pass it to libraries, and copy with "
                "cudaMemcpyAsync");
  }

  bool ended_ = false;
  bool is_own_ = false;  // true if a call of this thread was rejected or recorded
};

/// A stream of a GPU. The destructor waits until its work has finished, within the time limit of its device.
/// A stream that does not finish is never destroyed, nor is anything that it may use.
class cuda_stream {
 public:
  /// \throws cuda_error
  cuda_stream(std::shared_ptr<cuda::resources> of, int priority)
      : of_(std::move(of)), handle_(of_->make_stream(priority)) {}
  cuda_stream(cuda_stream&& other) noexcept
      : of_(std::move(other.of_)), handle_(std::exchange(other.handle_, nullptr)) {}
  cuda_stream& operator=(cuda_stream&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~cuda_stream() {
    if (handle_) of_->end_stream(handle_);
  }

  /// Returns the handle for kernel launches and calls of CUDA libraries.
  cudaStream_t handle() const { return handle_; }
  int device() const { return of_->device(); }

  /// Calls `issue`, which launches kernels on this stream, and checks for errors.
  /// \throws cuda_error if a kernel could not be launched; with `cuda::checks::streams` error if work went to
  ///   a default stream
  template <std::invocable F>
  void watch(F const& issue) const {
    if (of_->checks() == cuda::checks::streams)
      default_stream_guard::call(issue);
    else
      issue();
    check_launch("launch of a kernel");
  }

  /// Returns a range of profilers for a stage call: `forward, stage 3, microbatch 5`.
  template <class Operation>
  [[nodiscard]] profiler_range range(stage_call const& at, Operation const& operation) const {
    return profiler_range([&] {
      return std::string(operation()) + ", stage " + std::to_string(index(at.stage)) + ", microbatch " +
             std::to_string(index(at.microbatch));
    });
  }

 private:
  std::shared_ptr<cuda::resources> of_;
  cudaStream_t handle_;
};

}  // namespace cleave::detail
