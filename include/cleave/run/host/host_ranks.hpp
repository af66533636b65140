// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave {

/// The rendezvous of ranks that are threads of one process: holds the first failure of the run and lets ranks
/// wait for each other. Thread-safe.
class host_ranks {
 public:
  explicit host_ranks(std::uint32_t count) : bells_(count) {}

  std::uint32_t count() const { return static_cast<std::uint32_t>(bells_.size()); }

  /// Publishes a failure and wakes all waiting ranks. Only the first failure is kept.
  void publish(failure const& f) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (first_) return;
      try {
        first_ = f;
      } catch (...) {
        first_ = failure{f.code, f.at, {}, f.cause, f.reporter, f.culprit, {}};  // out of memory for the text
      }
      failed_.store(true);
    }
    for (auto& b : bells_) ring(b);
  }

  std::optional<failure> poll() const {
    if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return first_;
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Wakes rank `r` after a change of something that it may wait for. Precondition: `r` is one of the ranks.
  void ring(rank_id r) { ring(bells_[index(r)]); }

  /// Blocks rank `r` until `done()` returns true. The thread that makes it true must call `ring` afterwards.
  /// Spins first, since most waits are short.
  /// \throws run_error once the run has failed
  template <class F>
  void wait(rank_id r, F done) {
    auto& rung = bells_[index(r)].rung;
    for (int turn = 0; turn < spins; ++turn)
      if (done()) return;
    for (;;) {
      auto const before = rung.load();
      if (done()) return;
      if (failed()) throw run_error(*poll());
      rung.wait(before);
    }
  }

 private:
  static constexpr int spins = 200;

  struct alignas(64) bell {
    std::atomic<std::uint32_t> rung = 0;
  };
  static void ring(bell& b) {
    b.rung.fetch_add(1);
    b.rung.notify_all();
  }

  mutable std::mutex mutex_;
  std::optional<failure> first_;
  std::atomic<bool> failed_ = false;
  std::vector<bell> bells_;
};

static_assert(rendezvous<host_ranks>);
}  // namespace cleave
