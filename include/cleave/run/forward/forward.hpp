// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/dataflow.hpp"
#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/ports.hpp"

/// Streaming of values of any C++ type through stages: forward only, within one process.
namespace cleave::inline v0_2 {

/// A value that moves between stages: a tensor, a set of tensors, or a handle. Moved-from and default values
/// must be assignable.
template <class Value>
concept stage_value = std::movable<Value> && std::default_initializable<Value>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The identity of a transfer: an edge of the dataflow and a microbatch. Both ends name it the same way, so a
/// mismatch is reported as an error instead of causing a wrong value or a hang.
struct envelope {
  std::uint32_t edge;
  microbatch_id microbatch;

  bool operator==(envelope const&) const = default;
};

/// A communicator that moves values between stages in stream order. Transfers of one edge match in issue
/// order. A transfer may wait for its peer, but never for a transfer of another edge. `send` and `recv` throw
/// `run_error` once the run is aborted, and on a mismatch.
/// - `c.send(v, which, s)`: moves `v` out.
/// - `c.recv(v, which, s)`: moves the sent value into `v`.
/// - `c.abort(f)`: releases all current and future waits in transfers. From any thread; noexcept.
template <class C, class D, class Value>
concept value_communicator =
    clocked_device<D> && stage_value<Value> &&
    requires(C& c, Value& v, envelope const& which, typename D::stream& s, failure const& f) {
      { c.send(v, which, s) };
      { c.recv(v, which, s) };
      { c.abort(f) } noexcept;
    };

/// The user's code for all stages of one device.
/// - `st.forward(s, i, mb, in, out)`: issues to `s` the computation of `out`, the results of stage `i` that
///   others read, from its inputs `in`. Both are in the order of the dataflow. May move from `in`.
template <class S, class D, class Value>
concept value_stage =
    clocked_device<D> && stage_value<Value> &&
    requires(S& st, typename D::stream& s, stage_id i, microbatch_id mb, std::span<Value> values) {
      { st.forward(s, i, mb, values, values) };
    };

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The activity of a stage.
enum class activity : std::uint8_t {
  receive,  ///< waiting for its inputs
  forward,  ///< computing
  send,     ///< waiting for queue space for its results
};

/// One interval of a timeline, in nanoseconds since the start of the run; begin <= end.
struct interval {
  stage_id stage;
  microbatch_id microbatch;
  activity what;
  std::int64_t begin, end;

  bool operator==(interval const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The times that a stage computed and waited, in nanoseconds.
struct stage_time {
  std::int64_t receive = 0, forward = 0, send = 0;

  bool operator==(stage_time const&) const = default;
};

/// Returns the total times by stage. Ignores intervals of stages beyond `stages`. O(intervals).
inline std::vector<stage_time> stage_times(std::span<interval const> timeline, std::size_t stages) {
  std::vector<stage_time> times(stages);
  for (auto const& bar : timeline) {
    if (index(bar.stage) >= stages) continue;
    auto& t = times[index(bar.stage)];
    auto& sum = bar.what == activity::receive   ? t.receive
                : bar.what == activity::forward ? t.forward
                                                : t.send;
    sum += bar.end - bar.begin;
  }
  return times;
}

/// Returns the end of a timeline, in nanoseconds since the start of the run.
inline std::int64_t timeline_end(std::span<interval const> timeline) {
  std::int64_t end = 0;
  for (auto const& bar : timeline) end = (std::max)(end, bar.end);
  return end;
}

/// Returns the fraction of the total time of all stages in which they did not compute. O(intervals).
inline double idle_fraction(std::span<interval const> timeline, std::size_t stages) {
  double busy = 0;
  for (auto const& t : stage_times(timeline, stages)) busy += static_cast<double>(t.forward);
  double const all = static_cast<double>(timeline_end(timeline)) * static_cast<double>(stages);
  return all > 0 ? 1 - busy / all : 0;
}
/// The recorded calls of one stage, by microbatch. Failures and timelines are derived from it.
template <clocked_device D>
struct call_log {
  struct entry {
    typename D::event began, received, computed, sent;
  };
  std::vector<entry> entries;
  std::atomic<std::uint32_t> ended = 0;  ///< number of ended calls; readable at any time
};

/// Appends three intervals per entry, in order: receive, forward, send. Times count from `origin`.
template <clocked_device D>
void append_intervals(D& d, call_log<D> const& log, stage_id i, typename D::event const& origin,
                      std::vector<interval>& timeline) {
  for (std::uint32_t m = 0; m < log.entries.size(); ++m) {
    auto const& e = log.entries[m];
    auto const at = [&](typename D::event const& x) {
      return std::int64_t{std::chrono::nanoseconds(d.elapsed(origin, x)).count()};
    };
    std::int64_t const began = at(e.began), received = at(e.received), computed = at(e.computed);
    timeline.push_back({i, microbatch_id{m}, activity::receive, began, received});
    timeline.push_back({i, microbatch_id{m}, activity::forward, received, computed});
    timeline.push_back({i, microbatch_id{m}, activity::send, computed, at(e.sent)});
  }
}

/// Runs one stage of a forward run on the calling thread. For each microbatch in order, receives its inputs,
/// computes, and sends its results, with copies for all readers but the last. Returns when all are done, or
/// soon after the run has failed on any stage. Publishes its own failure before returning.
///
/// The run cannot deadlock, for any capacity of the edges and with skip connections. Number the receives,
/// calls and sends of the whole run by (microbatch, position of the stage in a topological order, receive <
/// call < send). Each stage executes its own operations in this order. A receive waits for a send of the same
/// microbatch by an earlier stage. A send waits for queue space, that is, for a receive of an earlier
/// microbatch. So each operation waits only for smaller numbers, and the smallest unfinished one can proceed.
template <class Value, clocked_device D, value_communicator<D, Value> C, rendezvous B,
          value_stage<D, Value> S>
void forward_stage(D& d, C& c, B& b, S& st, stage_id i, stage_ports const& ports, std::uint32_t microbatches,
                   call_log<D>& log) {
  stage_call at{i, {}};
  auto const fail = [&](failure const& f) {
    b.publish(f);
    c.abort(f);
  };
  try {
    auto s = d.make_stream(0);
    std::vector<Value> in(ports.arriving.size()), out(ports.outputs);
    log.entries.reserve(microbatches);
    for (std::uint32_t m = 0; m < microbatches && !b.poll(); ++m) {
      at.microbatch = microbatch_id{m};
      auto& entry = log.entries.emplace_back(d.make_event(), d.make_event(), d.make_event(), d.make_event());

      d.record(entry.began, s);
      for (std::size_t k = 0; k < in.size(); ++k) c.recv(in[k], {ports.arriving[k], at.microbatch}, s);
      d.record(entry.received, s);

      try {
        st.forward(s, i, at.microbatch, in, out);
      } catch (...) {
        return fail(current_failure(at));
      }
      d.record(entry.computed, s);
      log.ended.fetch_add(1, std::memory_order_relaxed);

      for (auto& v : in) v = Value{};  // release before waiting for queue space
      for (std::size_t k = 0; k < ports.departing.size(); ++k) {
        auto const [output, edge] = ports.departing[k];
        bool const read_again = k + 1 < ports.departing.size() && ports.departing[k + 1].output == output;
        if constexpr (std::copyable<Value>)
          if (read_again) {
            Value copy = out[output];
            c.send(copy, {edge, at.microbatch}, s);
            continue;
          }
        c.send(out[output], {edge, at.microbatch}, s);
      }
      d.record(entry.sent, s);
    }
  } catch (run_error const& e) {
    fail(e.info);
  } catch (...) {
    fail(current_failure(at));
  }
}

/// The rendezvous of ranks that are threads of one process. The run is over once a failure is published or
/// every rank has left.
class host_rendezvous {
 public:
  explicit host_rendezvous(std::uint32_t ranks) : present_(ranks) {}

  /// Publishes a failure of the run. No effect once the run is over.
  void publish(failure const& f) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (first_ || present_ == 0) return;
      try {
        first_ = f;
      } catch (...) {
        first_ = failure{f.code, f.at, {}, f.cause};  // out of memory for the text: keep the place
      }
      failed_.store(true, std::memory_order_release);
    }
    over_.notify_all();
  }

  std::optional<failure> poll() const {
    if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return first_;
  }

  /// Reports that the calling rank has finished. Precondition: each rank calls it at most once.
  void leave() noexcept {
    {
      std::lock_guard lock(mutex_);
      expects(present_ > 0, "host_rendezvous: a rank leaves once");
      if (--present_ > 0) return;
    }
    over_.notify_all();
  }

  /// Waits until the run is over, at most until `until`. Returns true if it is over.
  bool wait_until(std::chrono::steady_clock::time_point until) const {
    std::unique_lock lock(mutex_);
    return over_.wait_until(lock, until, [&] { return first_ || present_ == 0; });
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return first_ || present_ == 0; });
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable over_;
  std::optional<failure> first_;
  std::atomic<bool> failed_ = false;
  std::uint32_t present_;
};

static_assert(rendezvous<host_rendezvous>);

/// A synchronous host device: issued work has ended when the call returns.
class host_clock {
 public:
  struct stream {};
  struct event {
    std::chrono::steady_clock::time_point at = {};
  };

  stream make_stream(int /*priority*/) { return {}; }
  event make_event() { return {}; }
  void record(event& e, stream&) { e.at = std::chrono::steady_clock::now(); }
  std::chrono::nanoseconds elapsed(event const& from, event const& to) const { return to.at - from.at; }
};

static_assert(clocked_device<host_clock>);

/// A blocking FIFO queue of at most `capacity` values between two threads. `close()`, from any thread,
/// releases waiting threads.
template <class T>
class bounded_queue {
 public:
  /// Precondition: capacity > 0.
  explicit bounded_queue(std::size_t capacity) : slots_(capacity) {
    expects(capacity > 0, "bounded_queue: capacity is at least 1");
  }

  /// Moves `value` in once there is space. Returns false once the queue is closed, and then leaves `value`
  /// unchanged.
  bool push(T& value) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || size_ < slots_.size(); });
      if (closed_) return false;
      slots_[(first_ + size_) % slots_.size()] = std::move(value);
      most_ = (std::max)(most_, ++size_);
    }
    changed_.notify_one();
    return true;
  }

  /// Moves the oldest value out once there is one. Returns false once the queue is closed, even if values are
  /// left.
  bool pop(T& value) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closed_ || size_ > 0; });
      if (closed_) return false;
      value = std::move(slots_[first_]);
      first_ = (first_ + 1) % slots_.size();
      --size_;
    }
    changed_.notify_one();
    return true;
  }

  void close() noexcept {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

  /// Returns the largest number of values held at one time.
  std::size_t most() const {
    std::lock_guard lock(mutex_);
    return most_;
  }

 private:
  mutable std::mutex mutex_;
  // one suffices: the queue cannot be both full and empty, so at most one side waits
  std::condition_variable changed_;
  std::vector<T> slots_;
  std::size_t first_ = 0, size_ = 0, most_ = 0;
  bool closed_ = false;
};

/// A communicator between threads of one process: a queue of `capacity` values for each edge between stages.
/// Inputs of the caller and results for the caller are moved directly, without waiting.
template <stage_value Value>
class value_queues {
 public:
  /// `microbatches[m]` are the caller's inputs for microbatch m; inputs with one reader are moved from.
  /// Preconditions: the dataflow has no fault, every microbatch has all inputs, and capacity > 0. If `Value`
  /// is not copyable, the dataflow has no shared edge.
  value_queues(dataflow t, std::vector<std::vector<Value>> microbatches, std::size_t capacity)
      : t_(std::move(t)), shared_(shared_edges(t_)), given_(std::move(microbatches)), made_(given_.size()) {
    std::size_t results = 0;
    for (auto const& e : t_.edges) {
      bool const queued = e.from != the_caller && e.to != the_caller;
      queues_.push_back(queued ? std::make_unique<bounded_queue<item>>(capacity) : nullptr);
      results += e.to == the_caller;
    }
    for (auto& row : made_) row.resize(results);
  }

  void send(Value& v, envelope const& which, host_clock::stream&) {
    auto const& e = edge(which);
    if (e.to == the_caller) {
      made_[index(which.microbatch)][e.input] = std::move(v);
      return;
    }
    item packed{which.microbatch, std::move(v)};
    if (!queues_[which.edge]->push(packed)) throw run_error(reason());
  }

  void recv(Value& v, envelope const& which, host_clock::stream&) {
    auto const& e = edge(which);
    if (e.from == the_caller) {
      take(v, which);
      return;
    }
    item packed;
    if (!queues_[which.edge]->pop(packed)) throw run_error(reason());
    if (packed.microbatch != which.microbatch)
      throw run_error({failure_code::mismatch, stage_call{e.to, which.microbatch},
                       stage_text(e.from) + " sent microbatch " + std::to_string(index(packed.microbatch)) +
                           " on edge #" + std::to_string(which.edge)});
    v = std::move(packed.value);
  }

  void abort(failure const& f) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (!reason_) try {
          reason_ = f;
        } catch (...) {
          reason_ = failure{f.code, f.at, {}, f.cause};  // out of memory for the text
        }
    }
    for (auto& q : queues_)
      if (q) q->close();
  }

  /// Returns the caller's results, by microbatch. Precondition: all transfers have ended.
  std::vector<std::vector<Value>> take_results() {
    for (std::uint32_t i = 0; i < t_.edges.size(); ++i) {
      auto const& e = t_.edges[i];
      if (e.from != the_caller || e.to != the_caller) continue;
      for (std::uint32_t m = 0; m < given_.size(); ++m) take(made_[m][e.input], {i, microbatch_id{m}});
    }
    return std::move(made_);
  }

  /// Returns the largest queue length of each edge; 0 for edges of the caller.
  std::vector<std::size_t> most_queued() const {
    std::vector<std::size_t> most;
    for (auto const& q : queues_) most.push_back(q ? q->most() : 0);
    return most;
  }

 private:
  struct item {
    microbatch_id microbatch = {};
    Value value = {};
  };

  dataflow::edge const& edge(envelope const& which) const {
    expects(which.edge < t_.edges.size() && index(which.microbatch) < given_.size(),
            "value_queues: an edge and a microbatch of this run");
    return t_.edges[which.edge];
  }

  /// Moves or copies an input of the caller into `v`. Several stages may copy the same input concurrently,
  /// because a copy only reads it.
  void take(Value& v, envelope const& which) {
    auto& given = given_[index(which.microbatch)][t_.edges[which.edge].output];
    if constexpr (std::copyable<Value>)
      if (shared_[which.edge]) {
        v = std::as_const(given);
        return;
      }
    v = std::move(given);
  }

  failure reason() const {
    std::lock_guard lock(mutex_);
    return *reason_;
  }

  dataflow t_;
  std::vector<char> shared_;
  std::vector<std::vector<Value>> given_, made_;
  std::vector<std::unique_ptr<bounded_queue<item>>> queues_;  // by edge; null for edges of the caller
  mutable std::mutex mutex_;
  std::optional<failure> reason_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The progress of a run.
struct forward_progress {
  std::uint64_t done = 0, total = 0;   ///< stage calls
  std::optional<failure> failed = {};  ///< the first failure, if any is known yet
};

/// The results and measurements of a run.
template <class Value>
struct forward_report {
  std::vector<std::vector<Value>> results;  ///< by microbatch, then in the order of the dataflow
  std::vector<interval> timeline;           ///< by stage, then microbatch: receive, forward, send
  std::vector<std::size_t> most_queued;     ///< by edge: largest queue length; 0 for edges of the caller
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A forward run in the background, with one thread per stage. `wait`, `wait_for` and `poll` report the first
/// failure at once, even while other stages still compute. The destructor stops the run if necessary, and
/// waits for running stage calls.
template <stage_value Value>
class forward_run {
 public:
  /// Starts the run. Each thread has a copy of `stages`. Precondition: as for `value_queues`.
  template <value_stage<host_clock, Value> S>
  forward_run(dataflow const& t, std::vector<std::vector<Value>> microbatches, std::size_t capacity, S stages)
      : state_(std::make_unique<state>(t, std::move(microbatches), capacity)) {
    state_->start(std::move(stages));
  }

  /// Waits until the run is over and returns its report. Precondition: it has not returned before.
  /// \throws stage_error if a stage failed, run_error if the run was stopped
  forward_report<Value> wait() {
    expects(state_ && !state_->reported, "forward_run: wait() returns once");
    state_->rendezvous.wait();
    if (auto const f = state_->rendezvous.poll()) raise(*f);
    return state_->report();
  }

  /// Waits at most `limit` for the run to end. Returns true if it is over.
  bool wait_for(std::chrono::milliseconds limit) const {
    return state_->rendezvous.wait_until(std::chrono::steady_clock::now() + limit);
  }

  /// Returns the first failure, or nothing. Never waits.
  std::optional<failure> poll() const { return state_->rendezvous.poll(); }

  forward_progress progress() const {
    forward_progress p{
        .done = 0, .total = std::uint64_t{state_->microbatches} * state_->logs.size(), .failed = poll()};
    for (auto const& log : state_->logs) p.done += log.ended.load(std::memory_order_relaxed);
    return p;
  }

  /// Stops the run: running stage calls are not interrupted, and no others begin. Returns at once.
  void stop() noexcept { state_->stop(); }

 private:
  struct state {
    state(dataflow const& t, std::vector<std::vector<Value>> inputs, std::size_t capacity)
        : of_stage(ports(t)),
          microbatches(static_cast<std::uint32_t>(inputs.size())),
          rendezvous(t.stages),
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
          forward_stage<Value>(device, communicator, rendezvous, stages, stage_id{i}, of_stage[i],
                               microbatches, logs[i]);
          rendezvous.leave();
        });
    }
    void stop() noexcept {
      auto const f = failure_with(failure_code::cancelled, "stopped by the caller");
      rendezvous.publish(f);
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
    host_rendezvous rendezvous;
    value_queues<Value> communicator;
    std::vector<call_log<host_clock>> logs;
    std::vector<std::thread> threads;
    bool reported = false;
  };

  std::unique_ptr<state> state_;
};

}  // namespace cleave::detail

/// Forward-only pipelines on host threads: one thread per stage, with bounded queues between them.
namespace cleave::inline v0_2 {

/// A function that computes one stage.
/// - `f(mb, in)`: returns the results of the stage that others read, from its inputs. `in` is a span that it
///   may move from. Both are in the order of the dataflow.
///
/// Each function is called from one thread, for microbatches 0, 1, … in order.
template <class F, class Value>
concept forward_function = stage_value<Value> && requires(F& f, microbatch_id mb, std::span<Value> in) {
  { f(mb, in) } -> std::convertible_to<std::vector<Value>>;
};

/// Options of `run_forward`.
struct forward_options {
  std::size_t capacity = 2;  ///< maximum number of values queued on each edge between stages; at least 1
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Adapts a list of functions, one per stage, to the stage concept.
template <class Value, forward_function<Value> F>
class function_stages {
 public:
  explicit function_stages(std::span<F> functions) : functions_(functions) {}

  void forward(host_clock::stream&, stage_id i, microbatch_id mb, std::span<Value> in, std::span<Value> out) {
    std::vector<Value> made = functions_[index(i)](mb, in);
    if (made.size() != out.size())
      throw error("returned " + std::to_string(made.size()) + " results, but the dataflow has " +
                  std::to_string(out.size()));
    std::ranges::move(made, out.begin());
  }

 private:
  std::span<F> functions_;
};

/// Returns the number of caller inputs of a dataflow. O(edges).
inline std::uint64_t caller_inputs(dataflow const& t) {
  std::uint64_t n = 0;
  for (auto const& e : t.edges)
    if (e.from == the_caller) n = (std::max)(n, std::uint64_t{e.output} + 1);
  return n;
}

/// Returns the first microbatch that lacks an input of the dataflow, or nothing. O(edges + microbatches).
template <class Value>
std::optional<microbatch_id> find_short_microbatch(dataflow const& t,
                                                   std::vector<std::vector<Value>> const& microbatches) {
  auto const needed = caller_inputs(t);
  for (std::size_t m = 0; m < microbatches.size(); ++m)
    if (microbatches[m].size() < needed) return microbatch_id{static_cast<std::uint32_t>(m)};
  return std::nullopt;
}

/// Starts a run of `stages`, which must outlive it. `microbatches` has the caller's inputs of each
/// microbatch, in the order of the dataflow; additional ones are ignored. A value with several readers is
/// copied for all but one. Copies may be read while others are written, so if copies share memory, stages
/// must write to new memory.
/// \throws dataflow_error, or error if the counts do not match
template <stage_value Value, forward_function<Value> F>
forward_run<Value> start_forward(std::vector<F>& stages, dataflow const& t,
                                 std::vector<std::vector<Value>> microbatches,
                                 forward_options const& options = {}) {
  expects(microbatches.size() < index(the_caller), "start_forward: the number of microbatches fits an id");
  if (auto const f = find_dataflow_fault(t)) throw dataflow_error(*f);
  auto const number = [](auto n) { return std::to_string(n); };
  if (stages.empty()) throw error("forward run: there are no stages; give at least one");
  if (stages.size() != t.stages)
    throw error("forward run: " + number(stages.size()) + " stages are given, but the dataflow has " +
                number(t.stages));
  if (options.capacity == 0) throw error("forward run: capacity is 0; it must be at least 1");
  if constexpr (!std::copyable<Value>)
    if (auto const e = find_shared_edge(t))
      throw error("forward run: result #" + number(t.edges[*e].output) + " of " +
                  stage_text(t.edges[*e].from) +
                  " has several readers, but its type is not copyable; use a shared pointer to it");
  if (auto const m = find_short_microbatch(t, microbatches))
    throw error("forward run: microbatch " + number(index(*m)) + " has " +
                number(microbatches[index(*m)].size()) + " values, but the dataflow needs " +
                number(caller_inputs(t)));
  return forward_run<Value>(t, std::move(microbatches), options.capacity, function_stages<Value, F>(stages));
}

struct no_observer {
  void operator()(forward_progress const&) const {}
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Runs `stages` over `microbatches` to the end and returns results and timings. Calls `observe` with the
/// progress on the calling thread, ten times a second, once at the end, and at once when a stage has failed.
/// After a failure it throws once running stage calls have ended.
/// \throws as `start_forward` and `forward_run::wait`
template <stage_value Value, forward_function<Value> F,
          std::invocable<forward_progress const&> Observe = detail::no_observer>
forward_report<Value> run_forward(std::vector<F>& stages, dataflow const& t,
                                  std::vector<std::vector<Value>> microbatches,
                                  forward_options const& options = {}, Observe observe = {}) {
  auto run = detail::start_forward(stages, t, std::move(microbatches), options);
  while (!run.wait_for(std::chrono::milliseconds(100))) observe(run.progress());
  observe(run.progress());
  return run.wait();
}

}  // namespace cleave
