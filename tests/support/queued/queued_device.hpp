// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/host/host_device.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/concepts.hpp"
#include "support/queued/queued_stream.hpp"

namespace cleave::testing {

using namespace detail;

/// An event of a stream: reached when the stream comes to its point and the transfers begun there have ended.
/// An event that was never recorded has happened.
class queued_event {
 public:
  using clock = std::chrono::steady_clock;

  /// A counter that a stream advances to mark its progress.
  class mark {
   public:
    void reach(std::uint64_t n) {
      at_.store(clock::now().time_since_epoch().count(), std::memory_order_relaxed);
      reached_.store(n, std::memory_order_release);
    }

   private:
    friend queued_event;
    std::atomic<std::uint64_t> reached_ = 0;
    std::atomic<clock::rep> at_ = 0;
  };

  bool happened() const {
    if (mark_ && mark_->reached_.load(std::memory_order_acquire) < number_) return false;
    return !transfers_ || transfers_->happened();
  }
  /// Precondition: the event has happened.
  clock::time_point at() const {
    if (transfers_) return transfers_->at();
    return mark_ ? clock::time_point(clock::duration(mark_->at_.load(std::memory_order_relaxed)))
                 : clock::time_point();
  }

  /// Records the event anew. It happens when the returned mark reaches `number()` and the expected transfers
  /// have ended. Threads that wait for the previous record keep waiting for that one.
  std::shared_ptr<mark> const& begin(std::shared_ptr<host_event const> transfers = nullptr) {
    if (!mark_ || mark_.use_count() > 1) mark_ = std::make_shared<mark>();
    ++number_;
    transfers_ = std::move(transfers);
    return mark_;
  }
  std::uint64_t number() const { return number_; }

 private:
  std::shared_ptr<mark> mark_;
  std::uint64_t number_ = 0;
  std::shared_ptr<host_event const> transfers_;
};

/// The CPU as a device with threads as streams: work runs asynchronously to the issuing thread, as on a GPU.
/// Priorities have no effect. A stream may be destroyed with pending work; see `queued_stream`.
class queued_device : public host_memory {
 public:
  using stream = queued_stream;
  using event = queued_event;

  /// `ranks` must outlive it and its streams. Precondition: `here` is a valid rank.
  queued_device(host_ranks& ranks, rank_id here, queued_options const& options = {})
      : ranks_(&ranks), rank_(here), options_(options) {}

  stream make_stream(int /*priority*/) {
    stream s(*ranks_, rank_, options_, streams_.size());
    streams_.push_back(s.watch());
    return s;
  }
  /// Ends all streams, as their destructors do. After a failure each rank calls this before it frees memory
  /// that other ranks may still copy from or to.
  void close_streams() {
    for (auto const& s : streams_) s.close();
  }
  event make_event() { return {}; }

  static void record(event& e, stream& s) { record(e, s, nullptr); }
  /// The event also waits for `transfers`, which work of the stream has begun.
  static void record(event& e, stream& s, std::shared_ptr<host_event const> transfers) {
    s.call([mark = e.begin(std::move(transfers)), n = e.number(), ranks = &s.ranks(), here = s.rank()] {
      mark->reach(n);
      ranks->ring(here);
    });
  }
  void wait(stream& s, event const& e) {
    if (!e.happened()) s.call([e, here = s.work_place()] { here.wait([&] { return e.happened(); }); });
  }
  bool query(event const& e) const { return e.happened(); }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at() - from.at(); }

  /// `from` must not change until the copy has ended.
  void copy(stream& s, void* to, void const* from, std::size_t bytes) {
    s.call([to, from, bytes] { copy_bytes(to, from, bytes); });
  }
  /// `list` must live until the work has ended.
  void accumulate(stream& s, sums const& list, accumulate_options const& options) {
    s.call([&list, options] { run_sums(list, options); });
  }

 private:
  host_ranks* ranks_;
  rank_id rank_;
  queued_options options_;
  std::vector<queued_stream::watcher> streams_;
};

static_assert(device<queued_device>);

}  // namespace cleave::testing
