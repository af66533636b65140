// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "cleave/cuda/check.hpp"

namespace cleave::inline v0_2::detail {

/// Makes a GPU the current one of this thread while it lives.
class cuda_scope {
 public:
  /// \throws cuda_error if the GPU does not exist
  explicit cuda_scope(int device) {
    cuda::check(cudaGetDevice(&before_), "cudaGetDevice");
    if (device == before_) return;
    cuda::check(cudaSetDevice(device), "cudaSetDevice");
    changed_ = true;
  }
  cuda_scope(cuda_scope&&) = delete;
  ~cuda_scope() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// Checks while stages issue their work. `streams` detects work on CUDA's default streams, which no other
/// work waits for. It costs microseconds per call, and no other code of the process may use those streams
/// while stages are called.
enum class checks : std::uint8_t { none, streams };

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// The functions that allocate and free memory of a GPU.
struct cuda_allocator {
  char const* name = "cudaMalloc";
  cudaError_t (*allocate)(void** to, std::size_t bytes) = [](void** to, std::size_t bytes) {
    return cudaMalloc(to, bytes);
  };
  void (*free)(void*) = [](void* p) { static_cast<void>(cudaFree(p)); };
};

}  // namespace cleave::detail

namespace cleave::inline v0_2::cuda {

/// The state that streams, events and memory of one GPU share: a pool of events, the list of streams, and the
/// flag `kept`. The flag is set once a stream did not finish in time. From then on nothing is freed, since
/// the stream may still use it and CUDA's free functions would block. Thread-safe.
class resources {
 public:
  using milliseconds = std::chrono::milliseconds;

  /// `drain_within` is the time limit for streams to finish before the memory they use is freed. `passes` is
  /// a stream of the caller that takes the place of all streams of priority 0, or null.
  resources(int device, unsigned event_flags, milliseconds drain_within,
            cuda::checks checks = cuda::checks::none, cudaStream_t passes = nullptr)
      : device_(device),
        event_flags_(event_flags),
        drain_within_(drain_within),
        checks_(checks),
        passes_(passes) {
    if (passes_) streams_.push_back(passes_);
  }
  resources(cuda::resources&&) = delete;
  ~resources() {
    if (is_kept()) return;
    for (auto const e : events_) static_cast<void>(cudaEventDestroy(e));
  }

  int device() const { return device_; }
  bool has_timing() const { return event_flags_ == cudaEventDefault; }
  cuda::checks checks() const { return checks_; }
  /// The functions for memory that is allocated from now on. Only the rank's thread may call them.
  detail::cuda_allocator const& allocator() const { return allocator_; }
  void allocate_with(detail::cuda_allocator const& a) { allocator_ = a; }

  /// Returns the number of the current recording, or 0 outside a recording. Only the rank's thread may call
  /// it.
  std::uint64_t recording() const { return recording_; }
  void begin_recording() { recording_ = ++recordings_; }
  void end_recording() { recording_ = 0; }
  /// Notes that a recording was launched, so memory that it takes is allocated.
  void note_launch(std::uint64_t recording) {
    if (!was_launched(recording)) launched_.push_back(recording);
  }
  bool was_launched(std::uint64_t recording) const noexcept {
    return std::ranges::find(launched_, recording) != launched_.end();
  }

  /// Frees nothing of this GPU from now on.
  void keep() noexcept { kept_.store(true); }
  bool is_kept() const noexcept { return kept_.load(); }

  /// Returns an event of the pool, which may have been recorded before.
  /// \throws cuda_error
  cudaEvent_t take_event() {
    std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      auto const e = events_.back();
      events_.pop_back();
      return e;
    }
    detail::cuda_scope const here(device_);
    events_.reserve(++made_);  // so that `give_event` never allocates
    cudaEvent_t e = nullptr;
    check(cudaEventCreateWithFlags(&e, event_flags_), "cudaEventCreateWithFlags");
    return e;
  }
  void give_event(cudaEvent_t e) noexcept {
    std::lock_guard lock(mutex_);
    events_.push_back(e);
  }

  /// Returns a stream that does not synchronise with the default stream. A smaller number means a higher
  /// priority.
  /// \throws cuda_error
  cudaStream_t make_stream(int priority) {
    if (passes_ && priority == 0) return passes_;
    detail::cuda_scope const here(device_);
    int least = 0, greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
    std::lock_guard lock(mutex_);
    streams_.reserve(streams_.size() + 1);
    cudaStream_t s = nullptr;
    check(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, std::clamp(priority, greatest, least)),
          "cudaStreamCreateWithPriority");
    streams_.push_back(s);
    return s;
  }
  /// Waits for the stream to finish, at most `drain_within`, and destroys it, unless it is the caller's. If
  /// it does not finish, keeps everything.
  void end_stream(cudaStream_t s) noexcept {
    if (s == passes_) {
      if (!is_kept() && !ends_by(s, clock::now() + drain_within_)) keep();
      return;
    }
    {
      std::lock_guard lock(mutex_);
      std::erase(streams_, s);
    }
    if (!is_kept() && ends_by(s, clock::now() + drain_within_)) return void(cudaStreamDestroy(s));
    keep();
  }

  /// Waits for all streams to finish, at most `drain_within`. Returns true if they have; otherwise keeps
  /// everything from now on.
  bool drain() noexcept {
    auto const until = clock::now() + drain_within_;
    std::lock_guard lock(mutex_);
    for (auto const s : streams_)
      if (!ends_by(s, until)) keep();
    return !is_kept();
  }

 private:
  using clock = std::chrono::steady_clock;

  /// Returns true if `s` finishes before `until`. A failed stream counts as finished.
  static bool ends_by(cudaStream_t s, clock::time_point until) noexcept {
    for (int turn = 0; cudaStreamQuery(s) == cudaErrorNotReady; ++turn) {
      if (clock::now() >= until) return false;
      if (turn > 100) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    static_cast<void>(cudaGetLastError());
    return true;
  }

  int device_;
  unsigned event_flags_;
  milliseconds drain_within_;
  cuda::checks checks_;
  cudaStream_t passes_;
  detail::cuda_allocator allocator_;
  std::uint64_t recording_ = 0, recordings_ = 0;
  std::vector<std::uint64_t> launched_;  // numbers of recordings
  std::atomic<bool> kept_ = false;
  std::mutex mutex_;
  std::vector<cudaEvent_t> events_;  // unused events
  std::size_t made_ = 0;             // number of events ever made
  std::vector<cudaStream_t> streams_;
};

}  // namespace cleave::cuda
