// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::cuda {

/// Pinned host memory for saved activations, for use in `offload` and `reload` of a stage. Both copy
/// asynchronously in stream order. Later work may then reuse the GPU memory, as the memory plan assumes. All
/// calls use the same stream.
class pinned_saved_activations {
 public:
  /// For saved activations of at most `bytes` bytes. Allocates memory for `at_once` of them now, and more on
  /// demand.
  /// \throws cuda_error
  pinned_saved_activations(cuda::device& d, std::size_t bytes, std::size_t at_once)
      : device_(&d), bytes_(bytes) {
    for (std::size_t n = 0; n < at_once; ++n) free_.push_back(d.allocate_pinned(bytes));
  }

  /// Returns how many are stored now.
  std::size_t count() const { return kept_.size(); }

  /// Copies the region `r` of saved activations of this pass to the host. `number` distinguishes regions of
  /// the same pass. Preconditions: it fits, and is not stored yet.
  /// \throws cuda_error
  void offload(cudaStream_t s, stage_pass const& p, region const& r, std::uint32_t number = 0) {
    expects(r.bytes() <= bytes_, "cuda::pinned_saved_activations: a stash that fits");
    expects(find(p, number) == kept_.end(), "cuda::pinned_saved_activations: one stash of a pass and number");
    if (free_.empty()) free_.push_back(device_->allocate_pinned(bytes_));
    kept_.push_back({p.stage, p.microbatch, number, std::move(free_.back())});
    free_.pop_back();
    copy(s, kept_.back().memory.data(), r.data, r.bytes());
  }

  /// Copies the region back to `r`, which may have another address. Precondition: it is stored, with the same
  /// size.
  /// \throws cuda_error
  void reload(cudaStream_t s, stage_pass const& p, region const& r, std::uint32_t number = 0) {
    auto const at = find(p, number);
    expects(at != kept_.end(), "cuda::pinned_saved_activations: a stash that was offloaded");
    copy(s, r.data, at->memory.data(), r.bytes());
    free_.push_back(std::move(at->memory));  // its next user is later in the stream
    std::swap(*at, kept_.back());
    kept_.pop_back();
  }

 private:
  struct kept {
    stage_id stage;
    microbatch_id microbatch;
    std::uint32_t number;
    detail::pinned_buffer memory;
  };

  std::vector<kept>::iterator find(stage_pass const& p, std::uint32_t number) {
    return std::ranges::find_if(kept_, [&](kept const& k) {
      return k.stage == p.stage && k.microbatch == p.microbatch && k.number == number;
    });
  }
  static void copy(cudaStream_t s, void* to, void const* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, s), "cudaMemcpyAsync");
  }

  cuda::device* device_;
  std::size_t bytes_;
  std::vector<detail::pinned_buffer> free_;
  std::vector<kept> kept_;  // only few at a time
};
}  // namespace cleave::cuda
