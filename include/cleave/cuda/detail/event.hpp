// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/cuda/detail/stream.hpp"
#include "cleave/cuda/resources.hpp"
#include "cleave/run/host/host_ranks.hpp"

namespace cleave::inline v0_2::detail {

/// A CUDA event from a pool, which is returned for reuse.
class pooled_event {
 public:
  /// \throws cuda_error
  explicit pooled_event(std::shared_ptr<cuda::resources> of)
      : of_(std::move(of)), handle_(of_->take_event()) {}
  pooled_event(pooled_event&& other) noexcept
      : of_(std::move(other.of_)), handle_(std::exchange(other.handle_, nullptr)) {}
  pooled_event& operator=(pooled_event&& other) noexcept {
    std::swap(of_, other.of_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~pooled_event() {
    if (handle_) of_->give_event(handle_);
  }

  cudaEvent_t handle() const { return handle_; }
  /// Records the event in `s`. All following functions also throw cuda_error.
  void record(cudaStream_t s) { cuda::check(cudaEventRecord(handle_, s), "cudaEventRecord"); }
  bool happened() const {
    auto const e = cudaEventQuery(handle_);
    if (e != cudaErrorNotReady) cuda::check(e, "cudaEventQuery");
    if (e == cudaErrorNotReady) static_cast<void>(cudaGetLastError());
    return e == cudaSuccess;
  }
  void hold_back(cudaStream_t s) const {
    cuda::check(cudaStreamWaitEvent(s, handle_, cudaEventWaitDefault), "cudaStreamWaitEvent");
  }

 private:
  std::shared_ptr<cuda::resources> of_;
  cudaEvent_t handle_;
};

/// An event of a rank: a point in one of its streams, or the end of some transfers, which other ranks may
/// still have to issue. An event that was never recorded has happened. An event of a recording counts as
/// happened outside of it, and an earlier event counts as happened inside it (run/model/recording.hpp). Used
/// by one thread, except for `transfers::issue`.
class cuda_event {
 public:
  explicit cuda_event(std::shared_ptr<cuda::resources> of) : of_(std::move(of)), own_(of_) {}

  /// Makes the event happen when all work issued to `s` so far has ended. This and the following functions
  /// throw cuda_error.
  void record(cuda_stream const& s) {
    own_.record(s.handle());
    now_ = state::recorded;
    recording_ = of_->recording();
  }

  bool happened() const {
    if (is_elsewhere()) return true;
    if (now_ == state::recorded) return own_.happened();
    if (now_ == state::unused) return true;
    return expected_->are_issued() && std::ranges::all_of(expected_->used(), &pooled_event::happened);
  }

  /// Makes work issued to `s` from now on begin after the event. Blocks the rank's thread until the transfers
  /// of the event have been issued.
  /// \throws run_error once the run has failed
  void hold_back(cuda_stream const& s) const {
    if (is_elsewhere()) return;
    if (now_ == state::recorded) return own_.hold_back(s.handle());
    if (now_ == state::unused) return;
    expected_->wait_until_issued();
    for (auto const& e : expected_->used()) e.hold_back(s.handle());
  }

  /// Returns the time from `from` to this event, or 0 if one of them was not recorded. Precondition: both
  /// have happened.
  std::chrono::nanoseconds since(cuda_event const& from) const {
    auto longest = -std::numeric_limits<float>::infinity();
    for (auto const& end : marks()) {
      auto shortest = std::numeric_limits<float>::infinity();
      for (auto const& begin : from.marks()) {
        float ms = 0;
        cuda::check(cudaEventElapsedTime(&ms, begin.handle(), end.handle()), "cudaEventElapsedTime");
        shortest = (std::min)(shortest, ms);
      }
      longest = (std::max)(longest, shortest);
    }
    if (marks().empty() || from.marks().empty()) return {};
    return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double, std::milli>(longest));
  }

  /// The transfers of a rank that an event waits for, issued by this or other ranks. Its address does not
  /// change.
  class transfers {
   public:
    /// Returns the event at which the rank was ready for them.
    pooled_event const& ready() const { return ready_; }

    /// Records that one transfer has been issued; it ends at the current end of `s`. From any thread.
    /// \throws cuda_error
    void issue(cudaStream_t s) {
      ends_[next_.fetch_add(1)].record(s);
      if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) ranks_->ring(rank_);
    }

   private:
    friend cuda_event;
    transfers(std::shared_ptr<cuda::resources> const& of, host_ranks& ranks, rank_id here)
        : ready_(of), ranks_(&ranks), rank_(here) {}

    bool are_issued() const { return missing_.load(std::memory_order_acquire) == 0; }
    void wait_until_issued() const {
      if (!are_issued()) ranks_->wait(rank_, [this] { return are_issued(); });
    }
    std::span<pooled_event const> used() const { return std::span(ends_).first(count_); }

    pooled_event ready_;
    host_ranks* ranks_;
    rank_id rank_;
    std::vector<pooled_event> ends_;
    std::uint32_t count_ = 0;
    std::atomic<std::uint32_t> next_ = 0, missing_ = 0;
  };

  /// Makes the event happen when `count` transfers have ended. They begin after all work issued to `s` so
  /// far. `ranks` wakes this rank when all have been issued. Precondition: `count` is positive, and the event
  /// has happened or was never used.
  transfers& expect(std::uint32_t count, cuda_stream const& s, host_ranks& ranks, rank_id here) {
    expects(count > 0, "cuda_event: the number of transfers is positive");
    if (!expected_) expected_.reset(new transfers(of_, ranks, here));
    auto& t = *expected_;
    while (t.ends_.size() < count) t.ends_.emplace_back(of_);
    t.count_ = count;
    t.next_.store(0, std::memory_order_relaxed);
    t.missing_.store(count, std::memory_order_relaxed);
    t.ready_.record(s.handle());
    now_ = state::expecting;
    recording_ = of_->recording();
    return t;
  }

 private:
  enum class state : std::uint8_t { unused, recorded, expecting };

  bool is_elsewhere() const { return recording_ != of_->recording(); }

  std::span<pooled_event const> marks() const {
    if (now_ == state::recorded && recording_ == 0) return {&own_, 1};
    return now_ != state::expecting ? std::span<pooled_event const>() : expected_->used();
  }

  std::shared_ptr<cuda::resources> of_;
  pooled_event own_;
  std::unique_ptr<transfers> expected_;  // null until transfers are expected
  state now_ = state::unused;
  std::uint64_t recording_ = 0;  // in which it was recorded; 0: none
};

}  // namespace cleave::detail
