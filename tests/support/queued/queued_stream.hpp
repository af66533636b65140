// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/random.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/model/failure.hpp"
#include "support/queued/stream_task.hpp"

namespace cleave::testing {

using namespace detail;

struct queued_options {
  /// Capacity of a stream, in items that have not begun; issuing one more blocks.
  std::size_t ahead = 1024;
  /// Time limit for a destroyed stream to finish its work; the rest is abandoned.
  std::chrono::milliseconds drain_within{5000};
  /// Maximal random delay before some items, so that a missing wait shows in the results.
  std::chrono::microseconds longest_delay{0};
  std::uint64_t seed = 0;  ///< seed of these delays
};

/// A thread that runs issued work in order. Once the run of its rank has failed it begins no more items. An
/// exception in an item fails the run.
class queued_stream {
  struct state;

 public:
  /// `ranks` must outlive it.
  queued_stream(host_ranks& ranks, rank_id here, queued_options const& options, std::uint64_t number)
      : state_(std::make_shared<state>(ranks, here, options, number)) {
    expects(options.ahead > 0, "queued_stream: room for one piece of work");
    state_->thread = std::thread([s = state_] { s->run(); });
  }
  queued_stream(queued_stream&&) = default;
  queued_stream& operator=(queued_stream&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  /// Waits until all work has ended or the run has failed, but at most `drain_within`. After that, items that
  /// have not begun never run, and a running one is abandoned.
  ~queued_stream() {
    if (state_) state_->close();
  }

  /// Runs `f` after all work issued before. Blocks while the queue is full.
  /// \throws run_error if the run fails while it blocks
  template <std::invocable F>
  void call(F f) {
    state_->push(stream_task(std::move(f)));
  }
  /// Attributes work issued from now on to `c`, which a failure then names.
  void about(stage_call c) { state_->about = c; }

  /// Handle with which work of a stream waits; the work itself may keep it.
  class inside {
   public:
    /// Waits until `done()`. A thread that makes it true must notify this rank.
    /// \throws run_error once the run has failed or the stream is abandoned
    template <class F>
    void wait(F done) const {
      state_->wait(done);
    }

   private:
    friend queued_stream;
    explicit inside(state* s) : state_(s) {}
    state* state_;
  };
  inside work_place() const { return inside(state_.get()); }

  /// Closes a stream from another thread, if it still exists.
  class watcher {
   public:
    /// Closes the stream as its destructor does.
    void close() const {
      if (auto const s = state_.lock()) s->close();
    }

   private:
    friend queued_stream;
    explicit watcher(std::weak_ptr<state> s) : state_(std::move(s)) {}
    std::weak_ptr<state> state_;
  };
  watcher watch() const { return watcher(state_); }

  rank_id rank() const { return state_->here; }
  host_ranks& ranks() const { return state_->ranks; }

 private:
  struct entry {
    stream_task task;
    std::optional<stage_call> at;
  };

  struct state {
    state(host_ranks& r, rank_id h, queued_options const& o, std::uint64_t number)
        : ranks(r), here(h), options(o), delays(o.seed * 0x9e3779b97f4a7c15u + number), entries(o.ahead) {}

    void push(stream_task t) {
      wait([&] { return issued.load() - begun.load() < entries.size(); });
      {
        std::lock_guard lock(mutex);
        auto& e = entries[issued.load() % entries.size()];
        e.task = std::move(t);
        e.at = about;
        issued.fetch_add(1);
      }
      ranks.ring(here);
    }

    template <class F>
    void wait(F done) {
      ranks.wait(here, [&] { return given_up.load() || done(); });
      if (given_up.load())
        throw run_error({.code = failure_code::cancelled,
                         .detail = "a stream was destroyed before its work had ended",
                         .reporter = here});
    }

    void run() {
      try {
        while (auto e = next()) {
          delay();
          e->task();
        }
      } catch (run_error const& e) {
        publish(e.info);
      } catch (...) {
        auto f = current_failure(running.value_or(stage_call{}));
        if (!running) f.code = failure_code::device, f.at = std::nullopt;
        f.culprit = here;
        publish(std::move(f));
      }
      std::lock_guard lock(mutex);
      ended = true;
      has_ended.notify_all();
    }

    /// Waits for the next item and returns it, or nullopt if there will be no more.
    std::optional<entry> next() {
      if (given_up.load()) return std::nullopt;
      wait([&] { return issued.load() != begun.load() || closed.load(); });
      if (issued.load() == begun.load() || ranks.failed()) return std::nullopt;
      std::lock_guard lock(mutex);
      entry e = std::move(entries[begun.load() % entries.size()]);
      running = e.at;
      begun.fetch_add(1);
      ranks.ring(here);
      return e;
    }
    void delay() {
      if (options.longest_delay.count() <= 0 || delays.below(4) != 0) return;
      auto const most = static_cast<std::size_t>(options.longest_delay.count());
      std::this_thread::sleep_for(std::chrono::microseconds(delays.below(most + 1)));
    }

    void publish(failure f) {
      if (given_up.load()) return;  // the owner may no longer exist
      if (f.reporter == no_rank) f.reporter = here;
      if (!f.at) f.at = running;
      ranks.publish(f);
    }

    void close() {
      closed.store(true);
      if (!thread.joinable()) return;
      ranks.ring(here);
      std::unique_lock lock(mutex);
      if (!has_ended.wait_for(lock, options.drain_within, [&] { return ended; })) {
        given_up.store(true);
        ranks.ring(here);
        if (!has_ended.wait_for(lock, options.drain_within / 10, [&] { return ended; })) {
          thread.detach();  // it shares this state
          return;
        }
      }
      lock.unlock();
      thread.join();
    }

    host_ranks& ranks;
    rank_id const here;
    queued_options const options;
    splitmix delays;
    std::vector<entry> entries;                        // a ring buffer
    std::atomic<std::uint64_t> issued = 0, begun = 0;  // since the start
    std::atomic<bool> closed = false, given_up = false;
    std::optional<stage_call> about;    // for work issued now
    std::optional<stage_call> running;  // for the running work
    std::mutex mutex;
    std::condition_variable has_ended;
    bool ended = false;
    std::thread thread;
  };

  std::shared_ptr<state> state_;
};

}  // namespace cleave::testing
