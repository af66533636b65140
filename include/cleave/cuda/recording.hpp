// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "cleave/cuda/resources.hpp"
#include "cleave/cuda/stream.hpp"

namespace cleave::detail {

/// What was issued to streams of a GPU, as one graph that is launched as often as wanted. Memory that it
/// takes and does not give back is given back when it is launched again. It is left where its device leaves
/// everything.
class cuda_recording {
 public:
  /// Takes what a capture has made, the recording of that number. \throws cuda_error
  cuda_recording(std::shared_ptr<cuda_resources> of, cudaGraph_t captured, std::uint64_t number)
      : of_(std::move(of)), number_(number) {
    auto const e = cudaGraphInstantiateWithFlags(
        &handle_, captured,
        cudaGraphInstantiateFlagUseNodePriority | cudaGraphInstantiateFlagAutoFreeOnLaunch);
    static_cast<void>(cudaGraphDestroy(captured));
    check_cuda(e, "cudaGraphInstantiateWithFlags");
  }
  cuda_recording(cuda_recording&& other) noexcept
      : of_(std::move(other.of_)), handle_(std::exchange(other.handle_, nullptr)), number_(other.number_) {}
  cuda_recording& operator=(cuda_recording&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(handle_, other.handle_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~cuda_recording() {
    if (handle_ && !of_->is_kept()) static_cast<void>(cudaGraphExecDestroy(handle_));
  }

  /// All of it behind what was issued to `s`. \throws cuda_error
  void launch(cuda_stream const& s) const {
    check_cuda(cudaGraphLaunch(handle_, s.handle()), "cudaGraphLaunch");
    of_->note_launch(number_);
  }

 private:
  std::shared_ptr<cuda_resources> of_;
  cudaGraphExec_t handle_ = nullptr;
  std::uint64_t number_;
};

}  // namespace cleave::detail
