// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"

namespace cleave::inline v0_2 {

/// The rendezvous of ranks that are threads of one process: holds the first failure of the run and lets ranks
/// wait for each other. Thread-safe.
class host_ranks {
 public:
  explicit host_ranks(std::uint32_t count)
      : spins_(count <= std::thread::hardware_concurrency() ? 200 : 1), bells_(count) {}

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

  /// Wakes rank `r` only if it waits for `what`, or for something without a name. `what` is a name and may
  /// be gone. The change is visible to loads in the one order of all `memory_order_seq_cst` operations.
  void ring(rank_id r, void const* what) {
    auto& b = bells_[index(r)];
    auto const awaited = b.awaited.load();
    if (awaited == what || awaited == &unnamed) ring(b);
  }

  /// Blocks rank `r` until `done()` returns true. The thread that makes it true must call `ring` afterwards.
  /// If `what` is given, this may be the `ring` that names it; `done` then loads in that same order. Spins
  /// first if each rank can have a core, since most waits are short.
  /// \throws run_error once the run has failed
  template <class F>
  void wait(rank_id r, F done, void const* what = &unnamed) {
    for (int turn = 0; turn < spins_; ++turn)
      if (done()) return;
    auto& b = bells_[index(r)];
    waiter const here(b, what);
    for (;;) {
      auto const before = here.rung();
      if (done()) return;
      if (failed()) throw run_error(*poll());
      here.sleep(before);
    }
  }

 private:
  /// What the threads of a rank wait for. Only they are woken: of many ranks most sleep, and each ring of a
  /// rank that has nothing to do would cost two changes of threads.
  struct alignas(64) bell {
    std::mutex mutex;
    std::condition_variable changed;
    std::uint64_t rung = 0;
    std::uint32_t waiters = 0;
    std::atomic<void const*> awaited = nullptr;  // `unnamed` if there are several waiters
  };

  /// A thread that waits at a bell.
  class waiter {
   public:
    waiter(bell& b, void const* what) : bell_(b) {
      std::lock_guard lock(bell_.mutex);
      bell_.awaited.store(bell_.waiters++ == 0 ? what : &unnamed);
    }
    waiter(waiter const&) = delete;
    ~waiter() {
      std::lock_guard lock(bell_.mutex);
      bell_.awaited.store(--bell_.waiters == 0 ? nullptr : &unnamed);
    }

    std::uint64_t rung() const {
      std::lock_guard lock(bell_.mutex);
      return bell_.rung;
    }
    /// Blocks until the bell has been rung since `before`.
    void sleep(std::uint64_t before) const {
      std::unique_lock lock(bell_.mutex);
      bell_.changed.wait(lock, [&] { return bell_.rung != before; });
    }

   private:
    bell& bell_;
  };

  static void ring(bell& b) {
    {
      std::lock_guard lock(b.mutex);
      ++b.rung;
    }
    b.changed.notify_all();
  }

  static constexpr char unnamed = 0;

  int spins_;
  mutable std::mutex mutex_;
  std::optional<failure> first_;
  std::atomic<bool> failed_ = false;
  std::vector<bell> bells_;
};

static_assert(rendezvous<host_ranks>);
}  // namespace cleave
