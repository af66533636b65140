// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A point in time of a rank that is a thread: when it passed it itself, or when some transfers have ended,
/// which other ranks end. One that nothing was recorded in has happened.
class host_event {
 public:
  using clock = std::chrono::steady_clock;

  bool happened() const {
    return open_.empty() || open_.front().transfers.load(std::memory_order_acquire) == 0;
  }

  /// Precondition: it has happened.
  clock::time_point at() const {
    return !open_.empty() && open_.front().used
               ? clock::time_point(clock::duration(open_.front().ended.load(std::memory_order_relaxed)))
               : at_;
  }

  /// It happens now. Precondition: it has happened, or never was used.
  void pass() {
    at_ = clock::now();
    if (!open_.empty()) open_.front().used = false;
  }

  /// What other ranks end: where that is counted. It stays where it is.
  class count {
   public:
    /// One has ended; whether it was the last.
    bool end_one() {
      ended.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
      return transfers.fetch_sub(1, std::memory_order_acq_rel) == 1;
    }

   private:
    friend host_event;
    std::atomic<std::uint32_t> transfers = 0;
    std::atomic<clock::rep> ended = 0;
    bool used = false;
  };

  /// It happens when `transfers`, one at least, have ended. Precondition: as of `pass`.
  count& expect(std::uint32_t transfers) {
    if (open_.empty()) open_ = std::vector<count>(1);
    auto& c = open_.front();
    c.used = true;
    c.transfers.store(transfers, std::memory_order_relaxed);
    return c;
  }

 private:
  clock::time_point at_ = {};
  std::vector<count> open_;  // none until transfers are expected, then one, which stays where it is
};

}  // namespace cleave::detail
