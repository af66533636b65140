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
#include "cleave/cuda/detail/event.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::inline v0_2::cuda {

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

/// Saved activations that go to pinned host memory and come back on a stream of their own, while the stage
/// computes. It provides their GPU memory, too: that of an offloaded one is free for others once the copy has
/// ended, which no work of the stage waits for. A stage calls, for each of its saved activations, `save` in
/// `forward`, `offload` and `reload` in the functions of these names, and `await` and then `release` in
/// `backward`. All calls of a stage use the same stream.
class overlapped_saved_activations {
 public:
  /// For saved activations of at most `bytes` bytes. Allocates pinned memory for `at_once` of them now, and
  /// more on demand.
  /// \throws cuda_error
  overlapped_saved_activations(cuda::device& d, std::size_t bytes, std::size_t at_once)
      : device_(&d), bytes_(bytes), memory_(d.resources()), copying_(d.make_stream(0)) {
    for (std::size_t n = 0; n < at_once; ++n) free_.push_back(d.allocate_pinned(bytes));
  }

  /// Returns GPU memory for `bytes` bytes that this pass saves. `number` distinguishes several of a pass.
  /// Preconditions: they are at most as many as the constructor allows, and not saved yet.
  /// \throws cuda_error
  void* save(cudaStream_t s, stage_pass const& p, std::size_t bytes, std::uint32_t number = 0) {
    expects(bytes <= bytes_, "cuda::overlapped_saved_activations: activations that fit");
    expects(find(p, number) == kept_.end(), "cuda::overlapped_saved_activations: saved once");
    kept_.push_back({p.stage,
                     p.microbatch,
                     number,
                     bytes,
                     memory_.take(s, bytes),
                     detail::pooled_event(device_->resources()),
                     {}});
    return kept_.back().on_gpu;
  }
  /// Copies them to the host, after the work issued to `s` so far, and frees their GPU memory after the copy.
  /// \throws cuda_error
  void offload(cudaStream_t s, stage_pass const& p, std::uint32_t number = 0) {
    auto& k = saved(p, number);
    expects(k.on_gpu, "cuda::overlapped_saved_activations: offloaded once");
    if (free_.empty()) free_.push_back(device_->allocate_pinned(bytes_));
    k.away = std::move(free_.back());
    free_.pop_back();
    k.moved.record(s);
    k.moved.hold_back(copying_.handle());
    copy(k.away.data(), k.on_gpu, k.bytes);
    memory_.give_back(copying_.handle(), std::exchange(k.on_gpu, nullptr));
    k.moved.record(copying_.handle());
  }
  /// Begins to copy them back, to other GPU memory. Nothing waits for that before `await`.
  /// \throws cuda_error
  void reload(stage_pass const& p, std::uint32_t number = 0) {
    auto& k = saved(p, number);
    expects(!k.on_gpu, "cuda::overlapped_saved_activations: reloaded after offload");
    k.on_gpu = memory_.take(copying_.handle(), k.bytes);
    copy(k.on_gpu, k.away.data(), k.bytes);
    k.moved.record(copying_.handle());
  }
  /// Returns where they are. Work issued to `s` from now on begins when they are there.
  /// \throws cuda_error
  void* await(cudaStream_t s, stage_pass const& p, std::uint32_t number = 0) {
    auto& k = saved(p, number);
    expects(k.on_gpu, "cuda::overlapped_saved_activations: reloaded before await");
    if (k.away.data()) k.moved.hold_back(s);
    return k.on_gpu;
  }
  /// Frees them after the work issued to `s` so far. Precondition: after `await`, if they were offloaded.
  /// \throws cuda_error
  void release(cudaStream_t s, stage_pass const& p, std::uint32_t number = 0) {
    auto& k = saved(p, number);
    memory_.give_back(s, k.on_gpu);
    if (k.away.data()) free_.push_back(std::move(k.away));  // its next copy is later in `copying_`
    std::swap(k, kept_.back());
    kept_.pop_back();
  }

  /// Returns how many are saved, on the GPU or the host.
  std::size_t count() const { return kept_.size(); }
  /// Returns true if the last copy of these activations has ended.
  bool has_moved(stage_pass const& p, std::uint32_t number = 0) { return saved(p, number).moved.happened(); }

 private:
  struct kept {
    stage_id stage;
    microbatch_id microbatch;
    std::uint32_t number;
    std::size_t bytes;
    void* on_gpu;                // null while they are on the host
    detail::pooled_event moved;  // end of the last copy
    detail::pinned_buffer away;  // empty if they were never offloaded
  };

  std::vector<kept>::iterator find(stage_pass const& p, std::uint32_t number) {
    return std::ranges::find_if(kept_, [&](kept const& k) {
      return k.stage == p.stage && k.microbatch == p.microbatch && k.number == number;
    });
  }
  kept& saved(stage_pass const& p, std::uint32_t number) {
    auto const at = find(p, number);
    expects(at != kept_.end(), "cuda::overlapped_saved_activations: activations that were saved");
    return *at;
  }
  void copy(void* to, void const* from, std::size_t bytes) {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, copying_.handle()), "cudaMemcpyAsync");
  }

  cuda::device* device_;
  std::size_t bytes_;
  cuda::step_memory memory_;
  std::vector<detail::pinned_buffer> free_;
  std::vector<kept> kept_;       // only few at a time
  detail::cuda_stream copying_;  // last member, destroyed first: it may still use the others
};
}  // namespace cleave::cuda
