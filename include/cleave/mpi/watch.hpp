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
#include "cleave/mpi/progress.hpp"
#include "cleave/run/blame.hpp"
#include "cleave/run/failure.hpp"
#include "cleave/run/tcp_board.hpp"

namespace cleave {

struct mpi_watch_options {
  std::chrono::milliseconds limit =
      std::chrono::minutes(10);  ///< of what all ranks do together, such as a step
  /// How long a rank may go on in a stage after the run has failed; then its process ends, with status 1.
  std::chrono::milliseconds leave_within{5'000};
};

/// A thread beside that of a rank, which makes no call of MPI. It releases the rank from its waits once the
/// run has failed anywhere, has the others asked when a step is overdue, and ends the process of a rank that
/// does not come back from a stage.
class mpi_watch {
 public:
  using clock = std::chrono::steady_clock;

  /// All three must outlive it; `source` is asked by other threads what the rank does.
  mpi_watch(tcp_board& b, mpi_progress& run, activity_source const& source, mpi_watch_options const& o)
      : board_(b), run_(run), source_(source), options_(o) {
    board_.answer_with(&source_);
    thread_ = std::thread([this] { watch(); });
  }
  mpi_watch(mpi_watch const&) = delete;
  mpi_watch& operator=(mpi_watch const&) = delete;
  ~mpi_watch() {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    thread_.join();
    board_.answer_with(nullptr);
  }

  /// While it lives, the rank does something with the others, and must end in time.
  class turn {
   public:
    explicit turn(mpi_watch& w) : watch_(w) { watch_.set_deadline(clock::now() + watch_.options_.limit); }
    turn(turn const&) = delete;
    turn& operator=(turn const&) = delete;
    ~turn() { watch_.set_deadline(std::nullopt); }

   private:
    mpi_watch& watch_;
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
      bool const over = board_.wait_until(deadline ? std::min(*deadline, until) : until);
      auto const failed = board_.poll();
      lock.lock();
      if (failed) return wait_for_rank(lock, *failed);
      if (deadline_ && clock::now() >= *deadline_ && !reported_) report(lock);
      if (over || reported_) changed_.wait_until(lock, until, [&] { return stopped_; });
    }
  }

  void report(std::unique_lock<std::mutex>& lock) {
    reported_ = true;
    lock.unlock();
    board_.report_waiting(source_.activity());
    lock.lock();
  }

  void wait_for_rank(std::unique_lock<std::mutex>& lock, failure const& f) {
    run_.publish(f);
    auto const until = clock::now() + options_.leave_within;
    if (changed_.wait_until(lock, until, [&] { return stopped_ || !deadline_; })) return;
    auto const line = "rank " + std::to_string(index(board_.rank())) +
                      " does not come back: " + source_.activity().operation +
                      "; the run has failed: " + describe(f) + "\n";
    std::fputs(line.c_str(), stderr);
    std::_Exit(1);
  }

  tcp_board& board_;
  mpi_progress& run_;
  activity_source const& source_;
  mpi_watch_options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<clock::time_point> deadline_;  // of what the rank does now
  bool reported_ = false, stopped_ = false;
  std::thread thread_;
};

}  // namespace cleave
