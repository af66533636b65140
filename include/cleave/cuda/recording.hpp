// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <utility>

#include "cleave/cuda/resources.hpp"
#include "cleave/cuda/stream.hpp"

namespace cleave {

/// What was issued to streams of a GPU, as one graph that is launched as often as wanted. It is left where
/// its device leaves everything.
class cuda_recording {
 public:
  /// Takes what a capture has made. \throws cuda_error
  cuda_recording(std::shared_ptr<cuda_resources> of, cudaGraph_t captured) : of_(std::move(of)) {
    auto const e = cudaGraphInstantiateWithFlags(&handle_, captured, cudaGraphInstantiateFlagUseNodePriority);
    static_cast<void>(cudaGraphDestroy(captured));
    check_cuda(e, "cudaGraphInstantiateWithFlags");
  }
  cuda_recording(cuda_recording&& other) noexcept
      : of_(std::move(other.of_)), handle_(std::exchange(other.handle_, nullptr)) {}
  cuda_recording& operator=(cuda_recording&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~cuda_recording() {
    if (handle_ && !of_->is_kept()) static_cast<void>(cudaGraphExecDestroy(handle_));
  }

  /// All of it behind what was issued to `s`. \throws cuda_error
  void launch(cuda_stream const& s) const {
    check_cuda(cudaGraphLaunch(handle_, s.handle()), "cudaGraphLaunch");
  }

 private:
  std::shared_ptr<cuda_resources> of_;
  cudaGraphExec_t handle_ = nullptr;
};

}  // namespace cleave
