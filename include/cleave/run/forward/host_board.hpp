// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

#include "cleave/core/expects.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// The board of ranks that are threads of one process. The run is over once a failure is published or every
/// rank has left.
class host_board {
 public:
  explicit host_board(std::uint32_t ranks) : present_(ranks) {}

  /// Without effect once the run is over.
  void publish(failure const& f) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (first_ || present_ == 0) return;
      try {
        first_ = f;
      } catch (...) {
        first_ = failure{f.code, f.at, {}, f.cause};  // no memory for the words: the place matters more
      }
      failed_.store(true, std::memory_order_release);
    }
    over_.notify_all();
  }

  std::optional<failure> poll() const {
    if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return first_;
  }

  /// A rank has nothing left to do. Precondition: called at most once by each.
  void leave() noexcept {
    {
      std::lock_guard lock(mutex_);
      expects(present_ > 0, "host_board: a rank leaves once");
      if (--present_ > 0) return;
    }
    over_.notify_all();
  }

  /// Waits until the run is over, but not beyond `until`; whether it is over.
  bool wait_until(std::chrono::steady_clock::time_point until) const {
    std::unique_lock lock(mutex_);
    return over_.wait_until(lock, until, [&] { return first_ || present_ == 0; });
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return first_ || present_ == 0; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable over_;
  std::optional<failure> first_;
  std::atomic<bool> failed_ = false;
  std::uint32_t present_;
};

static_assert(board<host_board>);

}  // namespace cleave::detail
