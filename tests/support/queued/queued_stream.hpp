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
  /// How many pieces of work a stream may hold that have not begun; whoever issues one more waits.
  std::size_t ahead = 1024;
  /// How long a stream that is destroyed may take to end what was issued; what is left then is given up.
  std::chrono::milliseconds drain_within{5000};
  /// Before some pieces of work a stream waits, at random, for as long as this: so that a wait that is
  /// missing shows in what comes out.
  std::chrono::microseconds longest_delay{0};
  std::uint64_t seed = 0;  ///< of these delays
};

/// A thread that carries out, one after the other, what is issued to it. Once the run of its rank has failed
/// it begins nothing more; what work throws fails the run.
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
  /// Waits until all that was issued has ended, or the run has failed, but not longer than `drain_within`:
  /// then what has not begun never will, and work that does not end is left to itself.
  ~queued_stream() {
    if (state_) state_->close();
  }

  /// Does `f` once all that was issued before has ended. Waits while too much is ahead.
  /// \throws run_error where it waits and the run has failed
  template <std::invocable F>
  void call(F f) {
    state_->push(stream_task(std::move(f)));
  }
  /// What is issued from now on is done for `c`, which a failure then names.
  void about(stage_call c) { state_->about = c; }

  /// Where work of a stream waits: it may be kept by the work itself.
  class inside {
   public:
    /// Waits until `done()`, which whoever makes it so follows by ringing for this rank.
    /// \throws run_error once the run has failed, or the stream is given up
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

  /// Ends a stream that is still there, from elsewhere.
  class watcher {
   public:
    /// As the destructor of the stream.
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

    /// The next piece of work once there is one; nothing when there is to be no more.
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
      if (given_up.load()) return;  // nobody may be there any more
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
          thread.detach();  // which shares this state
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
    std::vector<entry> entries;                        // a ring
    std::atomic<std::uint64_t> issued = 0, begun = 0;  // of all time
    std::atomic<bool> closed = false, given_up = false;
    std::optional<stage_call> about;    // of what is issued now
    std::optional<stage_call> running;  // of what is carried out
    std::mutex mutex;
    std::condition_variable has_ended;
    bool ended = false;
    std::thread thread;
  };

  std::shared_ptr<state> state_;
};

}  // namespace cleave::testing
