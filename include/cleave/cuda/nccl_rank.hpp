// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/cuda/detail/nccl_check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/run/forward/forward.hpp"
#include "cleave/run/model/concepts.hpp"

namespace cleave::cuda {

/// The order of additions in reductions.
enum class nccl_reductions : std::uint8_t {
  ordered,  ///< in rank order: every rank gets the same bits as with threads
  library,  ///< in the order that NCCL chooses
};

/// Options of NCCL. They must be equal on all ranks.
struct nccl_options {
  cuda::nccl_reductions reductions = cuda::nccl_reductions::ordered;
  std::size_t shortest_slice = 65'536;  ///< in bytes; below this size each rank computes an ordered sum alone
  /// Maximum number of messages in a group. NCCL splits large groups into several kernels, perhaps
  /// differently at the two ends, which can then deadlock.
  std::uint32_t largest_group = 128;
  /// GPU thread blocks (CTAs) that messages may take from the stages.
  int most_blocks = 4;
  /// Limit for all ranks to connect, before the first step.
  std::chrono::milliseconds connect_within{120'000};
  /// Limit for a call in a step, which waits for no other rank.
  std::chrono::milliseconds settle_within{30'000};
  /// Limit for running operations to stop after a failure.
  std::chrono::milliseconds abort_within{2'000};
  std::chrono::milliseconds finish_within{2'000};  ///< limit for all ranks to disconnect at the end
};

}  // namespace cleave::cuda

namespace cleave::detail {

/// The state that the communicators of one rank share: its GPU, the first known failure, and time limits of
/// all NCCL calls. The thread that constructs it makes all NCCL calls; `publish` and `poll` may be called
/// from any thread.
class nccl_rank {
 public:
  using milliseconds = std::chrono::milliseconds;

  /// `d` must outlive it, and must be the current GPU whenever a communicator is made or used. `here` is the
  /// rank in the run, for failure reports.
  nccl_rank(cuda::device& d, rank_id here, cuda::nccl_options const& o = {})
      : device_(&d), here_(here), options_(o) {}
  nccl_rank(nccl_rank&&) = delete;
  ~nccl_rank() { abort_all(); }

  cuda::device& device() const { return *device_; }
  rank_id here() const { return here_; }
  cuda::nccl_options const& options() const { return options_; }

  /// Records that the run has failed. Only the first failure is kept. The rank's thread sees it in its next
  /// wait.
  void publish(failure const& f) noexcept { first_.publish(f); }
  /// Returns the first failure, including errors that NCCL has detected since. Never waits.
  std::optional<failure> poll() const {
    if (auto f = first_.poll()) return f;
    if (is_own_thread()) look_for_errors();
    return first_.poll();
  }
  /// Publishes `f` and throws the first failure.
  /// \throws run_error
  [[noreturn]] void fail(failure const& f) const {
    first_.publish(f);
    throw run_error(*first_.poll());
  }

  /// Returns storage for a communicator, which NCCL may fill later. Its address is valid as long as this
  /// object.
  ncclComm_t* make_place() { return &places_.emplace_back(1).front(); }

  /// Checks the immediate result of `call` on `of`.
  /// \throws run_error if it failed
  void check(std::string_view call, ncclResult_t r, ncclComm_t of) const {
    if (r != ncclSuccess && r != ncclInProgress) fail(nccl_failure(call, r, of, here_));
  }
  /// Waits until the pending call on `of` has ended and `ended()` returns true.
  /// \throws run_error if the call or the run has failed, or it takes longer than `within`
  template <class Ended>
  void settle(std::string_view call, ncclComm_t const& of, milliseconds within, Ended ended) const {
    auto const until = clock::now() + within;
    for (std::uint32_t turn = 0;; ++turn) {
      ncclResult_t state = ncclSuccess;
      if (of) check(call, ncclCommGetAsyncError(of, &state), of);
      check(call, state, of);
      if (state == ncclSuccess && ended()) return;
      if (auto const f = first_.poll()) throw run_error(*f);
      if (clock::now() >= until) fail(nccl_timeout(call, within.count(), here_));
      pause(turn);
    }
  }
  void settle(std::string_view call, ncclComm_t const& of, milliseconds within) const {
    settle(call, of, within, [] { return true; });
  }

  /// Issues the calls of `issue()` on `of` as one group, and returns when they are enqueued.
  /// \throws run_error as `settle`
  template <class Issue>
  void group(ncclComm_t const& of, milliseconds within, Issue issue) const {
    check("ncclGroupStart", ncclGroupStart(), of);
    try {
      issue();
    } catch (...) {
      static_cast<void>(ncclGroupEnd());  // discards the group
      throw;
    }
    check("ncclGroupEnd", ncclGroupEnd(), of);
    settle("ncclGroupEnd", of, within);
  }

  /// Stops running operations without waiting, if this version of NCCL supports it. Only on the rank's
  /// thread.
  void revoke() noexcept {
    if (!is_own_thread() || std::exchange(revoked_, true)) return;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
    for (auto const& place : places_)
      if (place[0] && state_of(place[0]) != ncclInProgress)
        static_cast<void>(ncclCommRevoke(place[0], NCCL_REVOKE_DEFAULT));
#endif
  }
  /// Ends all communicators without their peers, and waits for the GPU as `cuda::device::drain`. Afterwards
  /// no operation uses memory of this rank any more, or the memory is never freed.
  void abort_all() noexcept {
    if (std::ranges::none_of(places_, [](auto const& place) { return place[0] != nullptr; })) return;
    revoke();
    auto const until = clock::now() + options_.abort_within;
    for (auto const& place : places_)
      if (place[0] && revoked_) static_cast<void>(is_quiet_by(place[0], until));
    for (auto& place : places_)
      if (place[0]) static_cast<void>(ncclCommAbort(std::exchange(place[0], nullptr)));
    device_->drain();
  }
  /// Ends one communicator: together with its peers, or alone if the run has failed or they do not respond.
  void end(ncclComm_t* place, bool together) noexcept {
    if (!*place) return;
    if (!together || first_.poll()) return abort_all();
    auto const c = std::exchange(*place, nullptr);
    auto const r = ncclCommFinalize(c);
    bool const asked = r == ncclSuccess || r == ncclInProgress;
    if (asked && is_quiet_by(c, clock::now() + options_.finish_within) && state_of(c) == ncclSuccess)
      static_cast<void>(ncclCommDestroy(c));
    else
      static_cast<void>(ncclCommAbort(c));
  }

 private:
  using clock = std::chrono::steady_clock;

  bool is_own_thread() const { return std::this_thread::get_id() == owner_; }

  static ncclResult_t state_of(ncclComm_t c) noexcept {
    ncclResult_t state = ncclSuccess;
    auto const r = ncclCommGetAsyncError(c, &state);
    return r == ncclSuccess ? state : r;
  }
  static bool is_quiet_by(ncclComm_t c, clock::time_point until) noexcept {
    for (std::uint32_t turn = 0; state_of(c) == ncclInProgress; ++turn) {
      if (clock::now() >= until) return false;
      pause(turn);
    }
    return true;
  }
  void look_for_errors() const {
    for (auto const& place : places_) {
      if (!place[0]) continue;
      auto const state = state_of(place[0]);
      if (state == ncclSuccess || state == ncclInProgress) continue;
      first_.publish(nccl_failure("NCCL", state, place[0], here_));
    }
  }

  static void pause(std::uint32_t turn) noexcept {
    if (turn < 100) return std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(turn < 1000 ? 20 : 200));
  }

  cuda::device* device_;
  rank_id here_;
  cuda::nccl_options options_;
  std::thread::id owner_ = std::this_thread::get_id();
  mutable host_rendezvous first_{1};
  bool revoked_ = false;
  std::vector<std::vector<ncclComm_t>> places_;  // one element each; addresses do not change
};

}  // namespace cleave::detail
