// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cleave/mpi/detail/check.hpp"
#include "cleave/run/forward/forward.hpp"

namespace cleave::inline v0_2::mpi {

/// The waiting strategy of a rank. It polls MPI `spins` times without a pause, then yields the processor
/// `yields` times between polls. After that it sleeps, twice as long each time. Use few spins if ranks share
/// processors.
struct backoff {
  std::uint32_t spins = 64;
  std::uint32_t yields = 1000;
  std::chrono::microseconds shortest_sleep{2};
  std::chrono::microseconds longest_sleep{100};
};

/// When the messages and sums of a rank make progress.
enum class progress : std::uint8_t {
  calls,  ///< whenever the rank waits, issues messages or reports a gradient
  /// Also while a stage computes, on a second thread, which makes MPI calls: stages make none then. It needs
  /// part of a processor.
  thread,
};

}  // namespace cleave::mpi

namespace cleave::inline v0_2::detail {

/// An object that has pending requests and is notified when one ends. `which` is the value passed to `watch`.
class mpi_requester {
 public:
  virtual void ended(std::uint32_t which, MPI_Status const& s) = 0;

 protected:
  ~mpi_requester() = default;
};

/// The pending requests of one rank, and the first known failure. One thread, that of the rank, makes all MPI
/// calls; MPI makes progress only in these calls. With `mpi::progress::thread`, a second thread calls
/// `advance` between `begin_background` and `end_background`; meanwhile calls of both are made in turn.
/// `publish` and `poll` may be called from any thread.
class mpi_progress {
 public:
  explicit mpi_progress(mpi::backoff p = {}, mpi::progress how = mpi::progress::calls) : backoff_(p) {
    if (how == mpi::progress::thread) background_ = std::thread([this] { run_background(); });
  }
  mpi_progress(mpi_progress const&) = delete;
  mpi_progress& operator=(mpi_progress const&) = delete;
  ~mpi_progress() {
    if (!background_.joinable()) return;
    {
      auto const mine = turn();
      stopped_ = true;
    }
    changed_.notify_one();
    background_.join();
  }

  /// Returns a lock, during which no other thread makes MPI calls. Not needed outside of the background.
  std::unique_lock<std::mutex> turn() {
    if (!background_.joinable()) return {};
    wanted_.store(true, std::memory_order_relaxed);
    std::unique_lock lock(calls_);
    wanted_.store(false, std::memory_order_relaxed);
    return lock;
  }
  /// Lets requests progress on the second thread, if there is one, until `end_background` returns.
  void begin_background() {
    if (!background_.joinable()) return;
    {
      auto const mine = turn();
      open_ = true;
    }
    changed_.notify_one();
  }
  void end_background() noexcept {
    if (!background_.joinable()) return;
    auto const mine = turn();
    open_ = false;
  }

  /// Releases all current and future waits. Only the first failure is kept.
  void publish(failure const& f) noexcept { first_.publish(f); }
  std::optional<failure> poll() const { return first_.poll(); }

  /// Notifies `to` when `r` ends, unless the run has failed by then. The address of `to` must not change
  /// until then.
  void watch(MPI_Request r, mpi_requester& to, std::uint32_t which) {
    requests_.push_back(r);
    owners_.push_back({&to, which});
  }

  /// Polls MPI once and notifies the owners of ended requests. Returns true if any has ended. Never waits.
  /// Failures are published. Precondition: it is this thread's turn.
  bool advance() {
    if (requests_.empty() || poll()) return false;
    auto const open = static_cast<int>(requests_.size());
    indices_.resize(requests_.size());
    statuses_.resize(requests_.size());
    int count = 0;
    int const code = MPI_Testsome(open, requests_.data(), &count, indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
      publish({.code = failure_code::transport, .detail = mpi_text(code)});
      return false;
    }
    if (count <= 0) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      ended_.push_back({owners_[static_cast<std::size_t>(indices_[i])], statuses_[i]});
      // MPI does not set it in this case
      if (code == MPI_SUCCESS) ended_.back().status.MPI_ERROR = MPI_SUCCESS;
    }
    forget_ended();
    for (auto const& e : ended_) e.owner.who->ended(e.owner.which, e.status);
    ended_.clear();
    return true;
  }

  /// Waits until `done()` returns true.
  /// \throws run_error once the run has failed
  template <class F>
  void wait(F done) {
    for (std::uint64_t idle = 0;; ++idle) {
      {
        auto const mine = turn();
        if (done()) return;
        if (auto const f = poll()) throw run_error(*f);
        if (advance()) {
          idle = 0;
          continue;
        }
      }
      pause(idle);
    }
  }

 private:
  /// The second thread.
  void run_background() {
    std::unique_lock mine(calls_);
    for (std::chrono::microseconds sleep = backoff_.shortest_sleep; !stopped_;) {
      changed_.wait(mine, [&] { return open_ || stopped_; });
      bool const moved = open_ && advance_or_fail();
      sleep = moved ? backoff_.shortest_sleep : (std::min)(2 * sleep, backoff_.longest_sleep);
      mine.unlock();
      if (!moved) std::this_thread::sleep_for(sleep);
      while (wanted_.load(std::memory_order_relaxed)) std::this_thread::yield();
      mine.lock();
    }
  }
  bool advance_or_fail() {
    try {
      return advance();
    } catch (std::exception const& e) {
      publish({.code = failure_code::transport, .detail = e.what()});
    }
    return false;
  }

  struct owner {
    mpi_requester* who;
    std::uint32_t which;
  };
  struct end {
    mpi_progress::owner owner;
    MPI_Status status;
  };

  void forget_ended() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] == MPI_REQUEST_NULL) continue;
      requests_[kept] = requests_[i];
      owners_[kept++] = owners_[i];
    }
    requests_.resize(kept);
    owners_.resize(kept);
  }

  void pause(std::uint64_t idle) const {
    if (idle < backoff_.spins) return;
    if (idle < std::uint64_t{backoff_.spins} + backoff_.yields) return std::this_thread::yield();
    auto const doublings = idle - backoff_.spins - backoff_.yields;
    auto const sleep = doublings > 20 ? backoff_.longest_sleep : backoff_.shortest_sleep * (1 << doublings);
    std::this_thread::sleep_for((std::min)(sleep, backoff_.longest_sleep));
  }

  mpi::backoff backoff_;
  host_rendezvous first_{1};
  std::vector<MPI_Request> requests_;
  std::vector<owner> owners_;  // by request
  std::vector<int> indices_;   // temporaries of `advance`
  std::vector<MPI_Status> statuses_;
  std::vector<end> ended_;
  // of the second thread; `open_` and `stopped_` are guarded by `calls_`
  std::mutex calls_;
  std::condition_variable changed_;
  bool open_ = false, stopped_ = false;
  std::atomic<bool> wanted_ = false;  // the thread of the rank waits for its turn
  std::thread background_;            // last member: it uses the others
};

}  // namespace cleave::detail
