// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/transport.hpp"
#include "cleave/run/forward/forward_loop.hpp"
#include "cleave/run/forward/host_board.hpp"
#include "cleave/run/forward/host_clock.hpp"
#include "cleave/run/forward/value_queues.hpp"

namespace cleave {

/// How far a run is.
struct forward_progress {
  std::uint64_t done = 0, total = 0;   ///< stage calls
  std::optional<failure> failed = {};  ///< the first failure, as soon as it is known
};

/// What a run made and measured.
template <class Value>
struct forward_report {
  std::vector<std::vector<Value>> results;  ///< by microbatch, then as the transport numbers them
  std::vector<interval> timeline;           ///< by stage, then microbatch: receive, forward, send
  std::vector<std::size_t> most_queued;     ///< on each edge of the transport, at a time; 0 on the caller's
};

}  // namespace cleave

namespace cleave::detail {

/// A forward run in the background, one thread a stage. `wait`, `wait_for` and `poll` tell of the first
/// failure at once, while other stages still compute. The destructor stops the run where it has not ended,
/// and returns when the stage calls that go on have.
template <stage_value Value>
class forward_run {
 public:
  /// Begins the run; each thread has a copy of `stages`. Precondition: as for `value_queues`.
  template <value_stage<host_clock, Value> S>
  forward_run(transport const& t, std::vector<std::vector<Value>> microbatches, std::size_t capacity,
              S stages)
      : state_(std::make_unique<state>(t, std::move(microbatches), capacity)) {
    state_->start(std::move(stages));
  }

  /// Waits until the run is over. \throws stage_error, or run_error where the run was stopped.
  /// Precondition: it has not returned before.
  forward_report<Value> wait() {
    expects(state_ && !state_->reported, "forward_run: wait() returns once");
    state_->board.wait();
    if (auto const f = state_->board.poll()) raise(*f);
    return state_->report();
  }

  /// Waits until the run is over, for `limit` at most; whether it is over.
  bool wait_for(std::chrono::milliseconds limit) const {
    return state_->board.wait_until(std::chrono::steady_clock::now() + limit);
  }

  /// The first failure, or nothing; never waits.
  std::optional<failure> poll() const { return state_->board.poll(); }

  forward_progress progress() const {
    forward_progress p{
        .done = 0, .total = std::uint64_t{state_->microbatches} * state_->logs.size(), .failed = poll()};
    for (auto const& log : state_->logs) p.done += log.ended.load(std::memory_order_relaxed);
    return p;
  }

  /// Gives the run up: stage calls that go on are not interrupted, no others begin. Returns at once.
  void stop() noexcept { state_->stop(); }

 private:
  struct state {
    state(transport const& t, std::vector<std::vector<Value>> inputs, std::size_t capacity)
        : of_stage(ports(t)),
          microbatches(static_cast<std::uint32_t>(inputs.size())),
          board(t.stages),
          communicator(t, std::move(inputs), capacity),
          logs(t.stages) {}
    ~state() {
      stop();
      join();
    }

    template <class S>
    void start(S stages) {
      auto here = device.make_stream(0);
      device.record(origin, here);
      threads.reserve(logs.size());
      for (std::uint32_t i = 0; i < logs.size(); ++i)
        threads.emplace_back([this, i, stages]() mutable {
          forward_stage<Value>(device, communicator, board, stages, stage_id{i}, of_stage[i], microbatches,
                               logs[i]);
          board.leave();
        });
    }
    void stop() noexcept {
      failure const f{failure_code::cancelled, {}, "stopped by the caller"};
      board.publish(f);
      communicator.abort(f);
    }
    void join() {
      for (auto& t : threads) t.join();
      threads.clear();
    }
    forward_report<Value> report() {
      join();
      reported = true;
      forward_report<Value> r{communicator.take_results(), {}, communicator.most_queued()};
      for (std::uint32_t i = 0; i < logs.size(); ++i)
        append_intervals(device, logs[i], stage_id{i}, origin, r.timeline);
      return r;
    }

    std::vector<stage_ports> of_stage;
    std::uint32_t microbatches;
    host_clock device;
    host_clock::event origin;
    host_board board;
    value_queues<Value> communicator;
    std::vector<call_log<host_clock>> logs;
    std::vector<std::thread> threads;
    bool reported = false;
  };

  std::unique_ptr<state> state_;
};

}  // namespace cleave::detail
