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

namespace cleave::detail {

/// An event of a GPU that others use later.
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
  /// \throws cuda_error, as all that follow
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

/// A point in time of a rank: of one of its streams, or when some transfers have ended, which other ranks may
/// still have to issue. One that was not recorded has happened; so has one of a recording outside of it, and
/// one of before inside (run/model/recording.hpp). Used by one thread, but for what it expects.
class cuda_event {
 public:
  explicit cuda_event(std::shared_ptr<cuda::resources> of) : of_(std::move(of)), own_(of_) {}

  /// From now on it is when all that was issued to `s` so far has ended. \throws cuda_error, as all but `at`
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

  /// What is issued to `s` from now on begins after it. Waits, on the thread of the rank, until the transfers
  /// that it is about have been issued. \throws run_error once the run has failed
  void hold_back(cuda_stream const& s) const {
    if (is_elsewhere()) return;
    if (now_ == state::recorded) return own_.hold_back(s.handle());
    if (now_ == state::unused) return;
    expected_->wait_until_issued();
    for (auto const& e : expected_->used()) e.hold_back(s.handle());
  }

  /// From `from` until this one; nothing where one of them was not recorded. Precondition: both have
  /// happened.
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

  /// Transfers of a rank, each begun by this rank or another one. It stays where it is.
  class transfers {
   public:
    /// When the rank was ready for them.
    pooled_event const& ready() const { return ready_; }

    /// One has been issued: it ends where `s` is now. From any thread. \throws cuda_error
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

  /// From now on it is when `count` transfers have ended that begin behind what was issued to `s` so far.
  /// `ranks` are told when they have been issued. Precondition: it has happened, or never was used; one
  /// transfer at least.
  transfers& expect(std::uint32_t count, cuda_stream const& s, host_ranks& ranks, rank_id here) {
    expects(count > 0, "cuda_event: transfers");
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
  std::unique_ptr<transfers> expected_;  // none until any are
  state now_ = state::unused;
  std::uint64_t recording_ = 0;  // that it was recorded in
};

}  // namespace cleave::detail
