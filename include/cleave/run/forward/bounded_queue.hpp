// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"

namespace cleave::detail {

/// At most `capacity` values on their way from one thread to one other, in order. Whoever waits is released
/// by `close()`, from any thread.
template <class T>
class bounded_queue {
 public:
  /// Precondition: capacity > 0.
  explicit bounded_queue(std::size_t capacity) : slots_(capacity) {
    expects(capacity > 0, "bounded_queue: room for one value at least");
  }

  /// Moves `value` in once there is room; false, and `value` untouched, once the queue is closed.
  bool push(T& value) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || size_ < slots_.size(); });
      if (closed_) return false;
      slots_[(first_ + size_) % slots_.size()] = std::move(value);
      most_ = (std::max)(most_, ++size_);
    }
    changed_.notify_one();
    return true;
  }

  /// Moves the oldest value out once there is one; false once the queue is closed, whatever is left in it.
  bool pop(T& value) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || size_ > 0; });
      if (closed_) return false;
      value = std::move(slots_[first_]);
      first_ = (first_ + 1) % slots_.size();
      --size_;
    }
    changed_.notify_one();
    return true;
  }

  void close() noexcept {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  /// The most values that it has held at a time.
  std::size_t most() const {
    std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // one suffices: it cannot be full and empty, so one side waits at most
  std::vector<T> slots_;
  std::size_t first_ = 0, size_ = 0, most_ = 0;
  bool closed_ = false;
};

}  // namespace cleave::detail
