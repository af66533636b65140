// SPDX-License-Identifier: MIT
#pragma once
#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/cuda/detail/blocking_call.hpp"
#include "cleave/cuda/detail/nccl_check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/run/forward/forward.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/stable_list.hpp"

namespace cleave::inline v0_2::cuda {

/// The order of additions in reductions.
enum class nccl_reductions : std::uint8_t {
  ordered,  ///< in rank order: every rank gets the same bits as with threads
  library,  ///< in the order that NCCL chooses
};

/// How the NCCL calls of a step return.
enum class nccl_calls : std::uint8_t {
  blocking,  ///< once the work is enqueued, which waits for no other rank
  polled,    ///< at once: NCCL starts a thread for each group, which takes the rank ten times as long
};

/// The memory that is registered with NCCL before the first step.
enum class nccl_registrations : std::uint8_t {
  none,     ///< nothing: NCCL copies through buffers of its own where it must
  buffers,  ///< each rank registers its own memory; needs NCCL 2.19.1
  windows,  ///< memory of sums is registered by all ranks together, as symmetric windows; needs NCCL 2.27.3
};

/// Options of NCCL. They must be equal on all ranks.
struct nccl_options {
  cuda::nccl_reductions reductions = cuda::nccl_reductions::ordered;
  cuda::nccl_calls calls = cuda::nccl_calls::blocking;
  /// With `buffers` and `windows`, NCCL allocates the memory of the device (`cuda::device::allocate`).
  cuda::nccl_registrations registrations = cuda::nccl_registrations::none;
  std::size_t shortest_slice = 65'536;  ///< in bytes; below this size each rank computes an ordered sum alone
  /// Maximum number of messages in a group. NCCL splits large groups into several kernels, perhaps
  /// differently at the two ends, which can then deadlock.
  std::uint32_t largest_group = 128;
  /// GPU thread blocks (CTAs) that messages may take from the stages.
  int most_blocks = 4;
  /// Limit for all ranks to connect, before the first step.
  std::chrono::milliseconds connect_within{120'000};
  /// Limit for a polled call in a step, which waits for no other rank.
  std::chrono::milliseconds settle_within{30'000};
  /// Limit for running operations to stop after a failure. Afterwards the rank leaves them and their memory.
  std::chrono::milliseconds abort_within{2'000};
  std::chrono::milliseconds finish_within{2'000};  ///< limit for all ranks to disconnect at the end
};

}  // namespace cleave::cuda

namespace cleave::inline v0_2::detail {

/// The owner of a communicator, who ends it.
enum class nccl_owner : std::uint8_t {
  run,
  caller,
  caller_until_failure,  ///< the caller; after a failure, the run aborts it
};

/// A communicator of NCCL, which NCCL may fill later. Its address does not change.
struct nccl_slot {
  ncclComm_t handle = nullptr;
  bool blocks = false;  ///< true: its calls return once their work is enqueued; false: they are polled
  nccl_owner owner = nccl_owner::run;
};

/// The state that the communicators of one rank share: its GPU, the first known failure, and time limits of
/// all NCCL calls. The thread that constructs it makes all NCCL calls, except those that may block: each of
/// these has a thread of its own, for which that thread waits. `publish` and `poll` may be called from any
/// thread.
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

  /// Returns the place of a new communicator. It lives as long as this object.
  nccl_slot* make_slot(nccl_slot const& of) { return &slots_.emplace(of); }

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

  /// Issues the calls of `issue()` on `of` as one group, and returns when they are enqueued. Precondition:
  /// their connections are open, so that they wait for no other rank.
  /// \throws run_error as `settle`
  template <class Issue>
  void group(nccl_slot const& of, Issue issue) const {
    issue_group(of, issue);
    if (!of.blocks) settle("ncclGroupEnd", of.handle, options_.settle_within);
  }
  /// Does the same for calls that may open connections, and so wait for other ranks, until `connect_within`
  /// has passed. If it fails, all communicators are ended, since NCCL may still use them.
  /// \throws run_error as `settle`
  template <class Issue>
  void connecting_group(nccl_slot const& of, Issue issue) {
    auto const within = options_.connect_within;
    if (!of.blocks) {
      issue_group(of, issue);
      return settle("ncclGroupEnd", of.handle, within);
    }
    connecting_call("ncclGroupEnd", of, [this, &of, issue] {
      open_group(of, issue);
      return ncclGroupEnd();  // nothing of this rank is used any more, should it have gone on
    });
  }
  /// Makes the call `f()` on `of`, which blocks until other ranks have made it, until `connect_within` has
  /// passed. If it fails, all communicators are ended. `f` uses nothing of this rank once other ranks are
  /// involved, since it may never return.
  /// \throws run_error
  template <class F>
  void connecting_call(std::string_view name, nccl_slot const& of, F f) {
    auto const within = options_.connect_within;
    auto const with = of.handle;
    auto const ended = std::make_shared<ncclResult_t>(ncclInProgress);
    blocking_call opening(device_->number(), [ended, own = std::move(f)]() mutable { *ended = own(); });
    if (!opening.ends_by(clock::now() + within, [this] { return first_.poll().has_value(); })) {
      first_.publish(nccl_timeout(name, within.count(), here_));
      bool const begun = opening.prevent();  // or the thread might call with a communicator that is gone
      abort_all();  // which ends the call, too, unless the communicator stays as it is
      if (device_->resources()->is_kept() || (begun && of.owner == nccl_owner::caller)) opening.leave();
      throw run_error(*first_.poll());
    }
    opening.rethrow();
    check(name, *ended, with);
  }

  /// Stops running operations of polled communicators without waiting, if this version of NCCL supports it.
  /// Only on the rank's thread.
  void revoke() noexcept {
    if (!is_own_thread() || std::exchange(revoked_, true)) return;
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 7)
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].handle && !slots_[i].blocks && slots_[i].owner == nccl_owner::run &&
          state_of(slots_[i].handle) != ncclInProgress)
        static_cast<void>(ncclCommRevoke(slots_[i].handle, NCCL_REVOKE_DEFAULT));
#endif
  }
  /// Ends all communicators without their peers, within `abort_within` for each of its two parts, and waits
  /// for the GPU as `cuda::device::drain`. Afterwards no operation uses memory of this rank any more, or the
  /// memory is never freed. A communicator of the caller stays as it is, unless the caller has allowed more.
  void abort_all() noexcept {
    std::vector<ncclComm_t> all;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].handle && may_abort(slots_[i])) all.push_back(slots_[i].handle);
    if (all.empty()) return;
    revoke();
    auto const until = clock::now() + options_.abort_within;
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (slots_[i].handle && !slots_[i].blocks && slots_[i].owner == nccl_owner::run && revoked_)
        static_cast<void>(is_quiet_by(slots_[i].handle, until));
    for (std::size_t i = 0; i < slots_.size(); ++i) slots_[i].handle = nullptr;
    abort(std::move(all));
    if (!device_->resources()->is_kept()) device_->drain();
  }
  /// Ends one communicator: together with its peers, or alone if the run has failed or they do not respond.
  void end(nccl_slot& of, bool together) noexcept {
    if (!of.handle) return;
    if (!together || first_.poll()) return abort_all();
    if (of.owner != nccl_owner::run) return void(of.handle = nullptr);
    auto const until = clock::now() + options_.finish_within;
    auto const c = std::exchange(of.handle, nullptr);
    if (of.blocks) return end_blocking(c, until);
    auto const r = ncclCommFinalize(c);
    bool const asked = r == ncclSuccess || r == ncclInProgress;
    if (asked && is_quiet_by(c, until) && state_of(c) == ncclSuccess)
      static_cast<void>(ncclCommDestroy(c));
    else
      abort({c});
  }

 private:
  using clock = std::chrono::steady_clock;

  bool is_own_thread() const { return std::this_thread::get_id() == owner_; }
  bool may_abort(nccl_slot const& of) const {
    return of.owner == nccl_owner::run || (of.owner == nccl_owner::caller_until_failure && first_.poll());
  }

  template <class Issue>
  void open_group(nccl_slot const& of, Issue const& issue) const {
    check("ncclGroupStart", ncclGroupStart(), of.handle);
    try {
      issue();
    } catch (...) {
      static_cast<void>(ncclGroupEnd());  // discards the group
      throw;
    }
  }
  template <class Issue>
  void issue_group(nccl_slot const& of, Issue const& issue) const {
    open_group(of, issue);
    check("ncclGroupEnd", ncclGroupEnd(), of.handle);
  }

  /// Aborts communicators as one group: their running operations may wait for each other, so NCCL must stop
  /// all of them before it waits for one. NCCL also waits for the work before them in their streams. If that
  /// does not end, leaves them, and nothing of the GPU is freed from now on.
  void abort(std::vector<ncclComm_t> all) noexcept {
    auto const abort_together = [own = std::move(all)] {
      static_cast<void>(ncclGroupStart());
      for (auto const c : own) static_cast<void>(ncclCommAbort(c));
      static_cast<void>(ncclGroupEnd());
    };
    try {
      blocking_call aborting(device_->number(), abort_together);
      if (aborting.ends_by(clock::now() + options_.abort_within, [] { return false; })) return;
      device_->keep();
      aborting.leave();
    } catch (...) {  // no thread can be started
      abort_together();
    }
  }
  void end_blocking(ncclComm_t c, clock::time_point until) noexcept {
    try {
      auto const ended = std::make_shared<bool>(false);
      blocking_call ending(device_->number(), [c, ended] {
        *ended = ncclCommFinalize(c) == ncclSuccess && ncclCommDestroy(c) == ncclSuccess;
      });
      if (ending.ends_by(until, [] { return false; }) && *ended) return;
      static_cast<void>(ending.prevent());
      abort({c});
      if (device_->resources()->is_kept()) ending.leave();  // it may not return, as the abort has not
    } catch (...) {
      abort({c});
    }
  }

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
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      auto const c = slots_[i].handle;
      if (!c) continue;
      auto const state = state_of(c);
      if (state == ncclSuccess || state == ncclInProgress) continue;
      first_.publish(nccl_failure("NCCL", state, c, here_));
    }
  }

  cuda::device* device_;
  rank_id here_;
  cuda::nccl_options options_;
  std::thread::id owner_ = std::this_thread::get_id();
  mutable host_rendezvous first_{1};
  bool revoked_ = false;
  stable_list<nccl_slot> slots_;
};

}  // namespace cleave::detail
