// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cleave/core/ids.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/rendezvous/activity_source.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave::inline v0_2 {

/// A watchdog thread of a rank that is a process. It releases the rank from its waits once the run has failed
/// on any rank. It asks for the activities of all ranks when a step is overdue. It ends the process if the
/// rank does not return from a stage, or from ending the run.
class watchdog {
 public:
  using clock = std::chrono::steady_clock;

  /// The object that releases waits. `release` may be called from any thread.
  class waiter {
   public:
    virtual void release(failure const& f) noexcept = 0;

   protected:
    ~waiter() = default;
  };

  /// All references must outlive it. Other threads ask `source` for the activity of the rank.
  watchdog(tcp_rendezvous& b, waiter& w, activity_source const& source, watchdog_options const& o)
      : rendezvous_(b), waiter_(w), source_(source), options_(o) {
    rendezvous_.answer_with(&source_);
    thread_ = std::thread([this] { watch(); });
  }
  watchdog(watchdog const&) = delete;
  watchdog& operator=(watchdog const&) = delete;
  ~watchdog() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
    rendezvous_.answer_with(nullptr);
  }

  std::chrono::milliseconds limit() const { return options_.limit; }

  /// A scope in which the rank works together with the others and must finish within the limit.
  class turn {
   public:
    explicit turn(watchdog& w) : watchdog_(w) {
      watchdog_.set_deadline(clock::now() + watchdog_.options_.limit);
    }
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() { watchdog_.set_deadline(std::nullopt); }

   private:
    watchdog& watchdog_;
  };

 private:
  static constexpr std::chrono::milliseconds slice{20};  // upper bound of the destructor's wait

  void set_deadline(std::optional<clock::time_point> t) {
    {
      std::lock_guard lock(mutex_);
      deadline_ = t;
      reported_ = false;
    }
    changed_.notify_all();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopped_) {
      auto const until = clock::now() + slice;
      auto const deadline = deadline_;
      lock.unlock();
      bool const over = rendezvous_.wait_until(deadline ? (std::min)(*deadline, until) : until);
      auto const failed = rendezvous_.poll();
      lock.lock();
      if (failed) return await_leave(lock, *failed);
      if (deadline_ && clock::now() >= *deadline_ && !reported_) report(lock);
      if (over || reported_) changed_.wait_until(lock, until, [&] { return stopped_; });
    }
  }

  void report(std::unique_lock<std::mutex>& lock) {
    reported_ = true;
    lock.unlock();
    rendezvous_.report_waiting(source_.activity());
    lock.lock();
  }

  void await_leave(std::unique_lock<std::mutex>& lock, failure const& f) {
    lock.unlock();
    waiter_.release(f);
    lock.lock();
    while (!stopped_) {
      auto const until = clock::now() + options_.leave_within;
      if (!changed_.wait_until(lock, until, [&] { return stopped_ || !deadline_; })) leave(f);
      changed_.wait(lock, [&] { return stopped_ || deadline_; });
    }
  }

  [[noreturn]] void leave(failure const& f) const {
    auto const line = "rank " + std::to_string(index(rendezvous_.rank())) +
                      " did not return from: " + source_.activity().operation +
                      "; the run has failed: " + printable(describe(f), 4000) + "\n";
    std::fputs(line.c_str(), stderr);
    std::_Exit(1);
  }

  tcp_rendezvous& rendezvous_;
  waiter& waiter_;
  activity_source const& source_;
  watchdog_options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<clock::time_point> deadline_;  // of the current operation
  bool reported_ = false, stopped_ = false;
  std::thread thread_;
};
}  // namespace cleave
