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
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/rendezvous/activity_source.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave {

/// A thread beside that of a rank that is a process. It releases the rank from its waits once the run has
/// failed anywhere, has the others asked when a step is overdue, and ends the process of a rank that does not
/// come back from a stage, or from what it does to end the run.
class watchdog {
 public:
  using clock = std::chrono::steady_clock;

  /// What is released; its call may come from any thread.
  class waiter {
   public:
    virtual void release(failure const& f) noexcept = 0;

   protected:
    ~waiter() = default;
  };

  /// All three must outlive it; `source` is asked by other threads what the rank does.
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

  /// While it lives, the rank does something with the others, and must end in time.
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
  static constexpr std::chrono::milliseconds slice{20};  // how long the destructor may have to wait

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
      if (failed) return watchdog_end(lock, *failed);
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

  void watchdog_end(std::unique_lock<std::mutex>& lock, failure const& f) {
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
                      " does not come back: " + source_.activity().operation +
                      "; the run has failed: " + describe(f) + "\n";
    std::fputs(line.c_str(), stderr);
    std::_Exit(1);
  }

  tcp_rendezvous& rendezvous_;
  waiter& waiter_;
  activity_source const& source_;
  watchdog_options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<clock::time_point> deadline_;  // of what the rank does now
  bool reported_ = false, stopped_ = false;
  std::thread thread_;
};
}  // namespace cleave
