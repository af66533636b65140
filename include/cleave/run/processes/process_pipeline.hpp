// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/rank_grid.hpp"
#include "cleave/run/executor/pipeline_options.hpp"
#include "cleave/run/executor/rank_runtime.hpp"
#include "cleave/run/gradients/gradient_agreement.hpp"
#include "cleave/run/gradients/gradient_buckets.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/device_scope.hpp"
#include "cleave/run/model/failure.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/processes/watchdog.hpp"
#include "cleave/run/program/program_activity.hpp"
#include "cleave/run/program/program_agreement.hpp"
#include "cleave/run/program/rank_program.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/run/rendezvous/activity_source.hpp"
#include "cleave/run/rendezvous/tcp_rendezvous.hpp"

namespace cleave::inline v0_2 {

/// The device and communicators of a rank that is a process.
/// - `B::device`, `B::communicator`: the types.
/// - `b.rendezvous()`, `b.own_device()`: those of this rank.
/// - `b.connect_all()`: returns a communicator of all ranks, for messages and sums. Collective.
/// - `b.connect(colour, key)`: returns a communicator of the ranks with the same colour, ordered by key, like
///   MPI_Comm_split. Null if this rank passes no colour. Collective, in the same order on all ranks.
/// - `b.connect_sums(colour, key)`: the same, for sums only.
/// - `b.prepare(c, program)`: prepares the messages of a program of this rank. Collective over the ranks of
///   `c`.
/// - `b.release(f)`: from `watchdog::waiter`.
/// - `b.end()`: called after a failure, perhaps more than once. On return nothing uses memory of this rank
/// any
///   more; noexcept.
template <class B>
concept process_backend =
    communicator<typename B::communicator, typename B::device> && std::derived_from<B, watchdog::waiter> &&
    requires(B& b, std::optional<std::uint32_t> colour, std::uint32_t key, typename B::communicator& c,
             rank_program const& program) {
      { b.rendezvous() } -> std::same_as<tcp_rendezvous&>;
      { b.own_device() } -> std::same_as<typename B::device&>;
      { b.connect_all() } -> std::same_as<typename B::communicator&>;
      { b.connect(colour, key) } -> std::same_as<typename B::communicator*>;
      { b.connect_sums(colour, key) } -> std::same_as<typename B::communicator*>;
      { b.prepare(c, program) };
      { b.end() } noexcept;
    };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The number of started processes, for the error message if it is wrong.
struct started_processes {
  std::uint32_t count;
  char const *by, *how;  ///< `MPI has started`, `mpirun -n`
};

/// Returns the rank in the plan of process `r`, if there are as many processes as the plan and its replicas
/// have ranks; otherwise any.
inline rank_id rank_in_plan(planned_step auto const& p, pipeline_options const& o, std::uint32_t r) {
  rank_grid const grid(
      {.pipe = static_cast<std::uint32_t>(p.order().ranks.size()), .data = o.replicas, .model = 1}, o.order);
  return rank_id{grid[rank_id{r % grid.size()}].pipe};
}

/// Returns the obstacle of the lowest rank that cannot replay steps, prefixed with its number. Returns
/// nothing if all ranks can replay. If one rank cannot replay, no rank may. Collective: each of the `ranks`
/// ranks of the rendezvous calls it with its own obstacle.
/// \throws run_error if a rank is lost or late
template <collective_rendezvous B>
std::optional<std::string> find_first_obstacle(B& rendezvous, std::optional<std::string> const& own,
                                               rank_id here, std::uint32_t ranks,
                                               std::chrono::steady_clock::time_point until) {
  std::optional<std::string> first;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::string why;
    if (rank_id{r} == here) why = own.value_or("");
    std::uint64_t size = why.size();
    rendezvous.broadcast(std::as_writable_bytes(std::span(&size, 1)), rank_id{r}, until);
    why.resize(static_cast<std::size_t>(size));
    rendezvous.broadcast(std::as_writable_bytes(std::span(why)), rank_id{r}, until);
    if (!first && !why.empty()) first = "rank " + std::to_string(r) + ": " + why;
  }
  return first;
}

/// The rendezvous as seen by the runtime of a process. Adds this rank and its activity to published failures.
/// `publish` returns after the run's first failure has been decided, or after 2 s.
class failure_reporter {
 public:
  /// Keeps references to both arguments. `source` reports the activity of this rank.
  failure_reporter(tcp_rendezvous& b, activity_source const& source) : rendezvous_(b), source_(source) {}

  void publish(failure const& f) noexcept {
    if (rendezvous_.poll()) return;
    try {
      auto mine = f;
      if (f.reporter == no_rank || f.code == failure_code::stage) mine.reporter = rendezvous_.rank();
      if (f.code == failure_code::stage) mine.culprit = rendezvous_.rank();
      rendezvous_.publish(placed(std::move(mine)));
    } catch (...) {  // out of memory for the text
      rendezvous_.publish({f.code, f.at, {}, f.cause, rendezvous_.rank()});
    }
    rendezvous_.wait_until(std::chrono::steady_clock::now() + std::chrono::seconds(2));
  }
  std::optional<failure> poll() const { return rendezvous_.poll(); }

  /// Publishes the exception being handled. Call it in a `catch` clause.
  void publish_current() noexcept {
    try {
      throw;
    } catch (run_error const& e) {
      publish(e.info);
    } catch (std::exception const& e) {
      publish(failure{.code = failure_code::cancelled, .detail = e.what(), .reporter = rendezvous_.rank()});
    } catch (...) {
      publish(failure{.code = failure_code::cancelled, .reporter = rendezvous_.rank()});
    }
  }

  /// Returns `f` with this rank's activity, unless `f` names a stage call and either an operation or another
  /// reporter.
  failure placed(failure f) const noexcept {
    try {
      auto const a = source_.activity();
      if (f.at && (!f.operation.empty() || f.reporter != rendezvous_.rank())) return f;
      f.reporter = rendezvous_.rank();
      if (!f.at) f.at = a.at;
      f.operation = a.operation.empty() ? "between steps" : a.operation;
    } catch (...) {
      return f;  // out of memory for the text
    }
    return f;
  }
  /// Returns `f` with the lost rank, if `f` says that some rank is lost but not which, as NCCL does. Waits up
  /// to 0.5 s for the rendezvous to notice.
  failure named(failure f) const {
    if (f.code != failure_code::peer_lost || f.culprit != no_rank) return f;
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    auto lost = rendezvous_.lost();
    for (; lost.empty() && std::chrono::steady_clock::now() < until; lost = rendezvous_.lost())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (!lost.empty()) f.culprit = lost.front();
    return f;
  }

 private:
  tcp_rendezvous& rendezvous_;
  activity_source const& source_;
};

static_assert(rendezvous<failure_reporter>);

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The pipeline of one process: runs this rank's part of schedules, step after step, on any backend. All
/// ranks construct it from the same plan with the same options. They make the same calls in the same order,
/// each rank on one thread.
///
/// The first failure of any rank ends the run on all ranks. The current call throws it; if the failure names
/// no stage, it says what this rank was doing. Destroying the pipeline during stack unwinding ends the run
/// for the other ranks too.
template <class S, process_backend Backend>
  requires stage<S, typename Backend::device>
class process_pipeline : activity_source {
 public:
  using device = typename Backend::device;

  /// `make_stages(device)` returns the stages of this rank. `with` are the constructor arguments of the
  /// backend. Collective. The device is the current one in this call, in all calls of the stages, and in
  /// their destructors.
  /// \throws error if the number of ranks is not that of the plan times the replicas
  /// \throws run_error, tie_order_error, bucket_error, program_need_error, and exceptions of `make_stages`
  ///   and of the backend
  template <std::invocable<device&> F, class... With>
  process_pipeline(planned_step auto const& p, F make_stages, pipeline_options const& o,
                   detail::started_processes const& started, With&&... with)
      : grid_(require_ranks(p, o, started)),
        sets_(detail::tie_sets_of(o.ties)),
        backend_(std::forward<With>(with)...),
        here_(backend_.rendezvous().rank()),
        reporter_(backend_.rendezvous(), *this),
        buckets_{o.buckets, o.bucket_bytes},
        steps_(o.steps),
        watchdog_(backend_.rendezvous(), backend_, *this, o.watchdog) {
    watchdog::turn const together(watchdog_);
    try {
      stages_.make(backend_.own_device(), make_stages);
      auto const here = detail::scope_of(backend_.own_device());
      connect(p.order().place);
      runtime_.emplace(backend_.own_device(), with_, reporter_, *stages_, p.order().place,
                       rank_id{place().pipe}, sets_, buckets_, steps_);
      agree_about_gradients(p.order().place);
      runtime_->open_sums();
      add_plan_together(p);
    } catch (...) {
      give_up();
      throw;
    }
  }
  process_pipeline(process_pipeline&&) = delete;
  ~process_pipeline() {
    bool const failed = rendezvous().poll().has_value();
    if (!failed && std::uncaught_exceptions() == exceptions_) return;
    if (!failed)
      rendezvous().publish(
          failure{.code = failure_code::cancelled,
                  .detail = "rank " + std::to_string(index(rank())) + " left before the run ended",
                  .reporter = rank(),
                  .culprit = rank()});
    end_backend();
  }

  rank_id rank() const { return here_; }
  /// Returns the replica of this rank, and its rank in the plan.
  rank_coordinates place() const { return grid_[rank()]; }
  S& stages() { return *stages_; }
  device& own_device() { return backend_.own_device(); }
  tcp_rendezvous& rendezvous() { return backend_.rendezvous(); }

  /// Adds a plan for the same stages on the same ranks, and returns its number. Collective.
  /// \throws run_error if the ranks' plans differ; placement_change_error, program_need_error
  std::size_t add_plan(planned_step auto const& p) {
    watchdog::turn const together(watchdog_);
    auto const here = detail::scope_of(own_device());
    return add_plan_together(p);
  }

  /// Runs this rank's part of a step. `values` are those of its replica. If it throws, all operations of this
  /// rank have ended, so memory can be freed. (`cudaFree` waits for all kernels of the GPU, and a kernel that
  /// waits for a message of a lost rank would never end.)
  /// \throws stage_error, run_error, step_value_error
  void run_step(step_values const& values, std::size_t plan_number = 0) {
    expects(plan_number < plans_, "process_pipeline: plan_number has been added");
    detail::require_step_values(runtime_->program(plan_number), values);
    plan_.store(plan_number, std::memory_order_relaxed);
    do_together([&] { runtime_->run_step(values, plan_number); });
  }
  /// Runs this rank's part of a step that ends with an optimiser step, with the result of `update`. The
  /// factor stays on the device, so the host waits only for the end of the step, and a replayed step contains
  /// the update. `options` may change from step to step.
  /// \throws stage_error, run_error, step_value_error
  detail::update_report run_step_and_update(step_values const& values,
                                            detail::update_options const& options = {},
                                            std::size_t plan_number = 0)
    requires detail::device_updated_stage<S, device>
  {
    expects(plan_number < plans_, "process_pipeline: plan_number has been added");
    expects(values.gradients == gradient_end::reduced,
            "process_pipeline: a step with an update sums its gradients");
    detail::require_step_values(runtime_->program(plan_number), values);
    plan_.store(plan_number, std::memory_order_relaxed);
    detail::update_report made;
    do_together([&] { made = runtime_->run_step(values, options, plan_number); });
    return made;
  }
  /// Copies tied parameters to the other stages. This function and `update` work as in `thread_pipeline`.
  void share_ties()
    requires detail::updated_stage<S, device>
  {
    do_together([&] { runtime_->share_ties(); });
  }
  detail::update_report update(detail::update_options const& options = {})
    requires detail::updated_stage<S, device>
  {
    detail::update_report made;
    do_together([&] { made = runtime_->update(options); });
    return made;
  }

  /// Returns result `number` of microbatch `m` for the caller, if this rank makes it. Valid until the next
  /// step of that plan.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number,
                                    std::size_t plan_number = 0) const {
    return runtime_->result(m, number, plan_number);
  }
  /// Returns the program of this rank, which is kept in packed form. O(program).
  rank_program program(std::size_t plan_number = 0) const { return runtime_->program(plan_number).unpack(); }
  /// Returns when this rank began and ended each instruction of the last step, in nanoseconds since its start
  /// of the step.
  std::vector<detail::instruction_time> times(std::size_t plan_number = 0) {
    return runtime_->times(plan_number);
  }

  /// Returns why all ranks issue the steps of that plan, or nothing if they are replayed.
  std::optional<std::string> const& replay_obstacle(std::size_t plan_number = 0) const {
    return runtime_->replays(plan_number).obstacle();
  }
  /// Returns the number of steps of that plan that were recorded.
  std::size_t recordings(std::size_t plan_number = 0) const {
    return runtime_->replays(plan_number).recordings();
  }

 private:
  using communicator_type = typename Backend::communicator;
  using runtime = rank_runtime<device, communicator_type, detail::failure_reporter, S>;

  static rank_grid require_ranks(planned_step auto const& p, pipeline_options const& o,
                                 detail::started_processes const& started) {
    auto const each = static_cast<std::uint32_t>(p.order().ranks.size());
    rank_grid const grid({.pipe = each, .data = o.replicas, .model = 1}, o.order);
    if (started.count != grid.size())
      throw error(std::string(started.by) + " " + std::to_string(started.count) +
                  " ranks, but the schedule has " + std::to_string(each) + " and there are " +
                  std::to_string(o.replicas) + " replicas of it; start " + std::to_string(grid.size()) +
                  " (" + started.how + ")");
    return grid;
  }

  /// Makes the communicators of the grid and the ties. Collective, in the same order on all ranks.
  void connect(stage_placement const& on) {
    auto const at = place();
    bool const replicated = grid_.size(rank_axis::data) > 1;
    with_.pipe = replicated ? backend_.connect(at.data, at.pipe) : &backend_.connect_all();
    if (replicated) with_.replicas = backend_.connect_sums(at.pipe, at.data);
    for (auto const& set : sets_) {
      auto const members = detail::ranks_of(set, on.rank_of);
      bool const in = std::ranges::count(members, rank_id{at.pipe}) > 0;
      auto* const made = members.size() < 2
                             ? nullptr
                             : backend_.connect_sums(in ? std::optional(at.data) : std::nullopt, at.pipe);
      with_.ties.push_back(made);
    }
  }

  std::size_t add_plan_together(planned_step auto const& p) {
    runtime_->add_plan(p, plans_);
    agree_about(p);
    agree_on_steps();
    backend_.prepare(*with_.pipe, runtime_->program(plans_).unpack());
    return plans_++;
  }

  /// Makes all ranks issue steps if one of them cannot replay.
  void agree_on_steps() {
    if (steps_ == step_mode::issued) return;
    auto& own = runtime_->replays(plans_);
    auto const until = std::chrono::steady_clock::now() + watchdog_.limit();
    if (auto first = detail::find_first_obstacle(rendezvous(), own.obstacle(), rank(), grid_.size(), until))
      own.issue_all(*std::move(first));
  }

  /// Compares the program with that of all other ranks.
  /// \throws run_error if they differ
  void agree_about(detail::claimed_plan auto const& p) {
    agree([&](auto until) {
      detail::agree_on_program(rendezvous(), p, rank_id{place().pipe}, rank(), grid_.size(), until);
    });
  }
  /// Compares the gradients to be summed with those of all other ranks.
  /// \throws run_error if they differ
  void agree_about_gradients(stage_placement const& on) {
    if (grid_.size(rank_axis::data) < 2 && sets_.empty()) return;
    auto own = detail::claims_of_rank(on, rank_id{place().pipe}, *stages_, buckets_);
    agree([&](auto until) {
      detail::agree_on_gradients(rendezvous(), std::move(own), rank(), grid_.size(), sets_, until);
    });
  }

  /// Runs the comparison `f(until)`, whose result is the same on all ranks. On disagreement rank 0 publishes
  /// it.
  /// \throws run_error if the ranks disagree
  template <class F>
  void agree(F f) {
    auto const until = std::chrono::steady_clock::now() + watchdog_.limit();
    try {
      f(until);
    } catch (detail::disagreement_error const& e) {
      if (rank() == rank_id{0})
        reporter_.publish(
            failure{.code = failure_code::mismatch, .detail = e.witness.what, .reporter = rank()});
    }
    rendezvous().barrier(until);
  }

  template <class F>
  void do_together(F f) {
    if (auto const failed = rendezvous().poll()) throw run_error(reporter_.placed(*failed));
    watchdog::turn const together(watchdog_);
    try {
      auto const here = detail::scope_of(own_device());
      f();
    } catch (stage_error const&) {
      end_operations();
      throw;
    } catch (run_error const& e) {
      auto const placed = reporter_.placed(e.info);
      end_operations();
      throw run_error(reporter_.named(placed));
    }
  }

  /// Publishes the current exception, so that the other ranks do not wait for this one. Call it in a `catch`
  /// clause.
  void give_up() noexcept {
    reporter_.publish_current();
    backend_.end();
  }
  /// Ends the backend within the limits of `watchdog_options`.
  void end_backend() noexcept {
    watchdog::turn const together(watchdog_);
    end_operations();
  }
  void end_operations() noexcept {
    if (runtime_) runtime_->forget_recordings();
    backend_.end();
  }

  detail::rank_activity activity() const override {
    if (plans_ == 0) return {.kind = detail::activity_kind::computing, .operation = "being set up"};
    auto const running = plan_.load(std::memory_order_relaxed);
    return detail::activity_of(runtime_->program(running), runtime_->at(running), grid_, rank());
  }

  rank_grid grid_;
  std::vector<detail::tie_set> sets_;
  Backend backend_;
  rank_id here_;
  detail::failure_reporter reporter_;
  rank_communicators<communicator_type> with_;
  detail::made_on_device<S, device> stages_;
  std::optional<runtime> runtime_;
  std::atomic<std::size_t> plan_ = 0;  // the running plan
  std::atomic<std::size_t> plans_ = 0;
  int exceptions_ = std::uncaught_exceptions();
  detail::bucket_rules buckets_;
  step_mode steps_;
  watchdog watchdog_;
};
}  // namespace cleave
