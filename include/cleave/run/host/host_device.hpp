// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/core/language.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/sums/sum_in_order.hpp"
#include "cleave/run/sums/sum_of_squares.hpp"

namespace cleave::inline v0_2::detail {

/// An event of a rank that is a thread. It happens when the rank records it, or when a number of transfers
/// have ended, which other ranks end. An event that was never recorded has happened. It takes eight bytes,
/// since each instruction of each rank has two. Precondition of copies and moves: the event has happened.
class host_event {
 public:
  using clock = std::chrono::steady_clock;

  host_event() = default;
  host_event(host_event const& other) : state_(other.state_.load(std::memory_order_relaxed)) {}
  host_event& operator=(host_event const& other) {
    state_.store(other.state_.load(std::memory_order_relaxed), std::memory_order_relaxed);
    return *this;
  }

  bool happened() const { return state_.load() >= 0; }

  /// Returns the time of the event. Precondition: the event has happened.
  clock::time_point at() const {
    return clock::time_point(clock::duration(state_.load(std::memory_order_relaxed)));
  }

  /// Makes the event happen now. Precondition: it has happened, or was never used.
  void pass() { state_.store(now(), std::memory_order_relaxed); }

  /// Makes the event happen when `transfers` (at least one) transfers have ended; returns the event, which
  /// stays where it is until then. Precondition: as for `pass`.
  host_event& expect(std::uint32_t transfers) {
    state_.store(-clock::rep{transfers}, std::memory_order_relaxed);
    return *this;
  }
  /// Ends one transfer. Returns true if it was the last; then the event may already be gone.
  bool end_one() {
    auto const time = now();
    auto open = state_.load(std::memory_order_relaxed);
    while (!state_.compare_exchange_weak(open, open == -1 ? time : open + 1)) {
    }
    return open == -1;
  }

 private:
  static clock::rep now() { return clock::now().time_since_epoch().count(); }

  std::atomic<clock::rep> state_ = 0;  // the time of the event, or minus the number of transfers to come
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Host memory, and the operations on it that all host devices share.
class host_memory {
 public:
  class buffer {
   public:
    buffer() = default;
    buffer(buffer&& other) noexcept
        : bytes_(std::exchange(other.bytes_, nullptr)), size_(std::exchange(other.size_, 0)) {}
    buffer& operator=(buffer&& other) noexcept {
      std::swap(bytes_, other.bytes_);
      std::swap(size_, other.size_);
      return *this;
    }
    ~buffer() { ::operator delete(bytes_, std::align_val_t{alignment}); }

    void* data() const { return bytes_; }
    std::size_t size() const { return size_; }

   private:
    friend class host_memory;
    void* bytes_ = nullptr;
    std::size_t size_ = 0;
  };
  using sums = detail::sum_table;

  static constexpr std::size_t alignment = 256;

  /// Returns `n` bytes set to 0xff, so that uninitialised floating-point numbers are NaN.
  /// \throws run_error if the memory is not available
  static buffer allocate(std::size_t n) {
    buffer b;
    void* const p =
        n > most_bytes ? nullptr : ::operator new(n == 0 ? 1 : n, std::align_val_t{alignment}, std::nothrow);
    if (!p)
      throw run_error({.code = failure_code::device,
                       .detail = "cannot allocate " + std::to_string(n) + " bytes of memory"});
    std::memset(p, 0xff, n);
    b.bytes_ = p;
    b.size_ = n;
    return b;
  }

  /// Prepares a list of additions.
  /// \throws sums_error
  static sums make_sums(std::span<region_pair const> pairs) { return detail::make_sum_table(pairs); }

  /// Copies `n` bytes. Precondition: the ranges do not overlap.
  static void copy_bytes(void* to, void const* from, std::size_t n) {
    if (n > 0) std::memcpy(to, from, n);
  }

  /// Executes the additions pair by pair. Products and sums are rounded separately; results of 16 bits are
  /// rounded once more.
  static void run_sums(sums const& table, accumulate_options const& o) {
    for (auto const& run : table.runs)
      detail::dispatch_floating_type(run.from, [&](auto from) {
        detail::dispatch_floating_type(run.to, [&](auto to) {
          using From = decltype(from);
          using To = decltype(to);
          if (o.target == accumulate_options::target::added_to)
            run_tiles<From, To, detail::adding>(table, run, o);
          else
            run_tiles<From, To, detail::overwriting>(table, run, o);
        });
      });
  }

  static double sum_of_squares(std::span<region const> regions) {
    return cleave::detail::sum_of_squares(regions);
  }

 private:
  static constexpr std::size_t most_bytes = static_cast<std::size_t>(-1) / 4;

  template <class From, class To, class Operation>
  static void run_tiles(detail::sum_table const& table, detail::sum_run const& run,
                        accumulate_options const& o) {
    using sum = detail::common_sum_t<From, To>;
    auto factor = static_cast<sum>(o.factor);
    if (o.device_factor) factor *= static_cast<sum>(*o.device_factor);
    auto const segments = std::span(table.segments).subspan(run.first_segment, run.segments);
    if (!o.nonfinite)
      run_tiles<From, To, Operation>(segments, factor);
    else if (run_tiles<From, To, detail::nonfinite_checked<Operation>>(segments, factor))
      __atomic_store_n(o.nonfinite, 1U, __ATOMIC_RELAXED);  // several streams may write it
  }

  /// Returns true if a result is not finite.
  template <class From, class To, class Operation>
  static bool run_tiles(std::span<detail::sum_segment const> segments,
                        detail::common_sum_t<From, To> factor) {
    bool bad = false;
    for (auto const& s : segments)
      for (std::uint32_t t = 0; t < detail::tiles_of(s.count); ++t)
        bad = detail::accumulate_lane<From, To, Operation>(s, s.first_tile + t, factor) || bad;
    return bad;
  }
};
/// The host as the device of a rank that is a thread. A stream is the thread that issues to it: work has
/// ended when the issuing call returns, except for transfers. So waiting for an event blocks the thread.
class host_device : public host_memory {
 public:
  static constexpr bool is_immediate = true;

  struct stream {};
  using event = detail::host_event;

  /// `ranks` must outlive it. Precondition: `here` is one of the ranks.
  host_device(host_ranks& ranks, rank_id here) : ranks_(&ranks), rank_(here) {}

  stream make_stream(int /*priority*/) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.pass(); }
  /// Blocks until `e` has happened.
  /// \throws run_error once the run has failed
  void wait(stream&, event const& e) {
    if (!e.happened()) ranks_->wait(rank_, [&] { return e.happened(); }, &e);
  }
  bool query(event const& e) const { return e.happened(); }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at() - from.at(); }

  void copy(stream&, void* to, void const* from, std::size_t bytes) { copy_bytes(to, from, bytes); }
  void accumulate(stream&, sums const& s, accumulate_options const& options) { run_sums(s, options); }

 private:
  host_ranks* ranks_;
  rank_id rank_;
};

static_assert(measuring_device<host_device>);
}  // namespace cleave
