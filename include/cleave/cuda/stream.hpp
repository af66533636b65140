// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <concepts>
#include <memory>
#include <utility>

#include "cleave/cuda/check.hpp"
#include "cleave/cuda/default_stream_guard.hpp"
#include "cleave/cuda/resources.hpp"

namespace cleave::detail {

/// A stream of a GPU. Whoever destroys it waits until what was issued has ended, within the time that its
/// device gives it; a stream that goes on then is left to itself, with all that it may use.
class cuda_stream {
 public:
  /// \throws cuda_error
  cuda_stream(std::shared_ptr<cuda_resources> of, int priority)
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

  /// What kernels are launched on, and calls of CUDA and its libraries take.
  cudaStream_t handle() const { return handle_; }
  int device() const { return of_->device(); }

  /// Calls `issue`, which launches kernels on it. \throws cuda_error where one could not be launched and
  /// nobody looked; with `cuda_checks::streams` error where work went to a default stream of CUDA
  template <std::invocable F>
  void watch(F const& issue) const {
    if (of_->checks() == cuda_checks::streams)
      default_stream_guard::call(issue);
    else
      issue();
    check_launch("launch of a kernel");
  }

 private:
  std::shared_ptr<cuda_resources> of_;
  cudaStream_t handle_;
};

}  // namespace cleave::detail
