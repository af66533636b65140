// SPDX-License-Identifier: MIT
#pragma once
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "cleave/mpi/detail/check.hpp"
#include "cleave/run/forward/forward.hpp"

namespace cleave::mpi {

/// The waiting strategy of a rank. It polls MPI `spins` times without a pause, then yields the processor
/// `yields` times between polls. After that it sleeps, twice as long each time. Use few spins if ranks share
/// processors.
struct backoff {
  std::uint32_t spins = 64;
  std::uint32_t yields = 1000;
  std::chrono::microseconds shortest_sleep{2};
  std::chrono::microseconds longest_sleep{100};
};

}  // namespace cleave::mpi

namespace cleave::detail {

/// An object that has pending requests and is notified when one ends. `which` is the value passed to `watch`.
class mpi_requester {
 public:
  virtual void ended(std::uint32_t which, MPI_Status const& s) = 0;

 protected:
  ~mpi_requester() = default;
};

/// The pending requests of one rank, and the first known failure. One thread, that of the rank, makes all MPI
/// calls; MPI makes progress only in these calls. `publish` and `poll` may be called from any thread.
class mpi_progress {
 public:
  explicit mpi_progress(mpi::backoff p = {}) : backoff_(p) {}
  mpi_progress(mpi_progress const&) = delete;
  mpi_progress& operator=(mpi_progress const&) = delete;

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
  /// Failures are published.
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
    for (std::uint64_t idle = 0; !done(); ++idle) {
      if (auto const f = poll()) throw run_error(*f);
      if (advance())
        idle = 0;
      else
        pause(idle);
    }
  }

 private:
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
};

}  // namespace cleave::detail
