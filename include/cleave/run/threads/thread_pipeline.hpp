// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
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
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/host/host_ranks.hpp"
#include "cleave/run/host/host_threads.hpp"
#include "cleave/run/model/device_scope.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/run/model/wait_chain.hpp"
#include "cleave/run/program/program_activity.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/run/threads/detail/parallel_results.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::inline v0_2::detail {

/// The groups of ranks that are threads of one process, and the communicators of each rank.
template <thread_backend Backend>
class thread_connections {
 public:
  using device = typename Backend::device;
  using communicator = typename Backend::communicator;

  /// `devices` has one per rank. All arguments must outlive it.
  thread_connections(Backend& b, host_ranks& ranks, std::span<device> devices)
      : backend_(b), ranks_(ranks), devices_(devices) {}

  /// Connects the ranks of each replica, the ranks of each replica that hold a set of ties, and the ranks
  /// that run the same stages in all replicas. Returns the communicators of each rank of the grid, which live
  /// as long as this object.
  /// \throws tie_stage_error if a tie names a missing stage, and errors of the backend
  std::vector<rank_communicators<communicator>> connect(rank_grid const& grid, stage_placement const& place,
                                                        std::span<tie_set const> sets) {
    std::vector<rank_communicators<communicator>> with(grid.size());
    for (std::uint32_t r = 0; r < grid.size(); ++r) {
      with[r].here = rank_id{r};
      with[r].ties.resize(sets.size());
    }
    for (std::uint32_t d = 0; d < grid.size(rank_axis::data); ++d) {
      auto const pipe = grid.ranks_at(rank_axis::data, d);
      join(pipe, [&](rank_id r) -> auto& { return with[index(r)].pipe; });
      for (std::size_t i = 0; i < sets.size(); ++i) {
        auto members = ranks_of(sets[i], place.rank_of);
        if (members.size() < 2) continue;
        for (auto& m : members) m = pipe[index(m)];
        join(members, [&](rank_id r) -> auto& { return with[index(r)].ties[i]; });
      }
    }
    for (std::uint32_t p = 0; p < grid.size(rank_axis::pipe) && grid.size(rank_axis::data) > 1; ++p)
      join(grid.ranks_at(rank_axis::pipe, p), [&](rank_id r) -> auto& { return with[index(r)].replicas; });
    return with;
  }

 private:
  /// Makes a group of `members` and a communicator for each, stored in `own(member)`.
  template <class Own>
  void join(std::vector<rank_id> const& members, Own own) {
    auto& group = backend_.make_group(groups_, ranks_, members, devices_);
    for (std::uint32_t m = 0; m < members.size(); ++m) own(members[m]) = &communicators_.emplace(group, m);
  }

  Backend& backend_;
  host_ranks& ranks_;
  std::span<device> devices_;
  stable_list<typename Backend::group> groups_;
  stable_list<communicator> communicators_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Runs schedules on threads of this process, one per rank, step after step. It can run several schedules on
/// the same stages, such as training and evaluation. Work runs on those threads, or on the devices of
/// `Backend`.
///
/// The first failure of any rank ends the run. The current call throws at once, but running stages are not
/// interrupted; the destructor waits for them.
template <class S, thread_backend Backend = host_threads>
  requires stage<S, typename Backend::device>
class thread_pipeline {
 public:
  using device = typename Backend::device;

  /// `stages[r]` has the stages of rank r; the ranks of the first replica come first. `p` becomes plan 0.
  /// \throws error if the number of stages is not the number of ranks, or if steps shall be replayed
  /// \throws tie_order_error, tie_stage_error, tie_gradient_error, bucket_error, program_need_error
  thread_pipeline(planned_step auto const& p, std::vector<S> stages, pipeline_options options = {},
                  Backend backend = {})
      : thread_pipeline(std::move(options), std::move(backend), p) {
    require_stages(stages.size());
    stages_ = std::move(stages);
    begin(p);
  }
  /// `make_stages(r, device)` returns the stages of rank r, which uses that device. The device is the current
  /// one in this call, in all calls of these stages, and in their destructors.
  /// \throws error if steps shall be replayed
  /// \throws tie_order_error, tie_stage_error, tie_gradient_error, bucket_error, program_need_error, and
  ///   exceptions of `make_stages`
  template <std::invocable<rank_id, device&> F>
  thread_pipeline(planned_step auto const& p, F make_stages, pipeline_options options = {},
                  Backend backend = {})
      : thread_pipeline(std::move(options), std::move(backend), p) {
    stages_.reserve(ranks_.count());
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      auto const here = detail::scope_of(devices_[r]);
      stages_.push_back(make_stages(rank_id{r}, devices_[r]));
    }
    begin(p);
  }
  ~thread_pipeline() { stop(); }
  thread_pipeline(thread_pipeline&&) = delete;

  std::uint32_t ranks() const { return ranks_.count(); }
  S& stages_of(rank_id r) { return stages_[index(r)]; }
  device& device_of(rank_id r) { return devices_[index(r)]; }

  /// Adds a plan for the same stages on the same ranks, and returns its number.
  /// \throws placement_change_error, program_need_error, run_error
  std::size_t add_plan(planned_step auto const& p) {
    require_no_failure();
    // Only a few programs are in memory before the runtimes pack them.
    auto const at_once = 2 * (std::max)(std::thread::hardware_concurrency(), 1U);
    for (std::uint32_t first = 0; first < ranks_.count(); first += at_once) {
      auto programs = detail::parallel_results(
          (std::min)(at_once, ranks_.count() - first),
          [&](std::uint32_t i) { return make_rank_program(p, rank_id{place_of(first + i).pipe}); });
      for (std::uint32_t i = 0; i < programs.size(); ++i) {
        auto const here = detail::scope_of(devices_[first + i]);
        runtimes_[first + i]->add_plan(p, std::move(programs[i]), plans_);
      }
    }
    return plans_++;
  }

  /// Runs one step on all ranks. `values` has one entry per replica.
  /// \throws stage_error, run_error, step_value_error
  void run_step(std::span<step_values const> values, std::size_t plan_number = 0) {
    run_job(job::step, values, plan_number, [] {});
  }
  void run_step(step_values const& values, std::size_t plan_number = 0) {
    run_step(std::span(&values, 1), plan_number);
  }

  /// Runs one step that ends with an optimiser step on all ranks, with the result of `update`. The factor
  /// stays on the devices, so the host waits for the end of the step only. The ranks of each replica sum the
  /// norm as a message, which the last of them issues.
  /// \throws stage_error, run_error, step_value_error
  detail::update_report run_step_and_update(std::span<step_values const> values,
                                            detail::update_options const& options = {},
                                            std::size_t plan_number = 0)
    requires detail::device_updated_stage<S, device>
  {
    for (auto const& v : values)
      expects(v.gradients == gradient_end::reduced,
              "thread_pipeline: a step with an update sums its gradients");
    run_job(job::step_and_update, values, plan_number, [&] { update_ = options; });
    return reports_.front();
  }
  detail::update_report run_step_and_update(step_values const& values,
                                            detail::update_options const& options = {},
                                            std::size_t plan_number = 0)
    requires detail::device_updated_stage<S, device>
  {
    return run_step_and_update(std::span(&values, 1), options, plan_number);
  }

  /// Copies the lowest stage's copy of each tied parameter to the others, separately in each replica.
  /// \throws run_error
  void share_ties()
    requires detail::updated_stage<S, device>
  {
    have_all_do(job::share, [] {});
  }
  /// Runs an optimiser step on all ranks, or on none if the gradients are not finite.
  /// \throws run_error
  detail::update_report update(detail::update_options const& options = {})
    requires detail::updated_stage<S, device>
  {
    have_all_do(job::update, [&] { update_ = options; });
    return reports_.front();
  }

  /// Returns result `number` of microbatch `m` for the caller, or nothing if no stage makes it. Valid until
  /// the next step of that plan.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number, std::uint32_t replica = 0,
                                    std::size_t plan_number = 0) const {
    for (auto const r : grid_.ranks_at(rank_axis::data, replica))
      if (auto const v = runtimes_[index(r)]->result(m, number, plan_number)) return v;
    return std::nullopt;
  }

  /// Returns the program of rank `r`, which is kept in packed form. O(program).
  rank_program program(rank_id r, std::size_t plan_number = 0) const {
    return runtimes_[index(r)]->program(plan_number).unpack();
  }
  /// Returns when rank `r` began and ended each instruction of the last step, in nanoseconds since its start
  /// of the step.
  std::vector<detail::instruction_time> times(rank_id r, std::size_t plan_number = 0) {
    return runtimes_[index(r)]->times(plan_number);
  }

 private:
  using runtime = rank_runtime<device, typename Backend::communicator, host_ranks, S>;
  enum class job : std::uint8_t { step, step_and_update, share, update };

  thread_pipeline(pipeline_options options, Backend backend, planned_step auto const& p)
      : options_(std::move(options)),
        backend_(std::move(backend)),
        grid_(require_grid(p)),
        ranks_(grid_.size()),
        runtimes_(ranks_.count()),
        values_(options_.replicas),
        reports_(ranks_.count()) {
    devices_.reserve(ranks_.count());
    for (std::uint32_t r = 0; r < ranks_.count(); ++r)
      devices_.push_back(backend_.make_device(ranks_, rank_id{r}));
    connections_.emplace(backend_, ranks_, devices_);
  }

  void begin(planned_step auto const& p) {
    auto const sets = detail::tie_sets_of(options_.ties);
    auto with = connections_->connect(grid_, p.order().place, sets);
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      auto const here = detail::scope_of(devices_[r]);
      runtimes_[r].emplace(devices_[r], std::move(with[r]), ranks_, stages_[r], p.order().place,
                           rank_id{place_of(r).pipe}, sets,
                           detail::bucket_rules{options_.buckets, options_.bucket_bytes});
    }
    add_plan(p);
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) threads_.emplace_back([this, r] { serve(r); });
  }

  rank_grid require_grid(planned_step auto const& p) const {
    if (options_.steps != step_mode::issued)
      throw error(
          "thread pipeline: threads cannot replay steps (step_mode::replayed), because a recording of one "
          "rank cannot wait for another rank in the middle; leave step_mode::issued, or run processes");
    if (options_.replicas == 0)
      throw error("thread pipeline: the number of replicas is 0; it must be at least 1");
    auto const each = static_cast<std::uint32_t>(p.order().ranks.size());
    return {{.pipe = each, .data = options_.replicas, .model = 1}, pipeline_options{}.order};
  }
  /// Returns the replica of a rank, and its rank in the plan.
  rank_coordinates place_of(std::uint32_t r) const { return grid_[rank_id{r}]; }
  void require_stages(std::size_t of_ranks) const {
    if (of_ranks != ranks_.count())
      throw error("thread pipeline: stages of " + std::to_string(of_ranks) + " ranks are given, but " +
                  std::to_string(ranks_.count()) + " ranks run them");
  }

  /// Throws after a failure: stages may still be running and use the inputs of the last job.
  void require_no_failure() {
    if (auto const f = ranks_.poll()) detail::raise(*f);
  }

  /// Runs a job that is a step. `set_inputs()` writes its further inputs under the lock.
  template <std::invocable F>
  void run_job(job what, std::span<step_values const> values, std::size_t plan_number, F set_inputs) {
    expects(values.size() == options_.replicas && plan_number < plans_,
            "thread_pipeline: one step_values per replica, and a plan that has been added");
    for (std::uint32_t r = 0; r < ranks_.count(); ++r)
      detail::require_step_values(runtimes_[r]->program(plan_number), values[place_of(r).data]);
    have_all_do(what, [&] {
      std::ranges::copy(values, values_.begin());
      plan_ = plan_number;
      set_inputs();
    });
  }

  /// Runs a job on all ranks. `set_inputs()` writes its inputs under the lock.
  template <std::invocable F>
  void have_all_do(job what, F set_inputs) {
    require_no_failure();
    std::unique_lock lock(mutex_);
    set_inputs();
    job_ = what;
    running_ = ranks_.count();
    ++jobs_;
    begin_.notify_all();
    auto const until = std::chrono::steady_clock::now() + options_.watchdog.limit;
    if (!end_.wait_until(lock, until, [&] { return running_ == 0 || ranks_.failed(); }))
      ranks_.publish(overdue());
    require_no_failure();
  }

  void serve(std::uint32_t r) {
    bool begun = false;
    for (std::uint64_t done = 0;;) {
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [&] { return stopped_ || jobs_ > done; });
        if (stopped_) return;
        done = jobs_;
      }
      try {
        if (!std::exchange(begun, true)) backend_.begin(devices_[r]);
        do_job(r);
      } catch (run_error const& e) {
        ranks_.publish(e.info);
      } catch (...) {
        failure f = detail::current_failure({});
        f.at.reset();
        f.reporter = f.culprit = rank_id{r};
        ranks_.publish(f);
      }
      std::lock_guard lock(mutex_);
      if (--running_ == 0 || ranks_.failed()) end_.notify_all();
    }
  }

  void do_job(std::uint32_t r) {
    auto const& values = values_[place_of(r).data];
    if (job_ == job::step) return runtimes_[r]->run_step(values, plan_);
    if constexpr (detail::device_updated_stage<S, device>)
      if (job_ == job::step_and_update) reports_[r] = runtimes_[r]->run_step(values, update_, plan_);
    if constexpr (detail::updated_stage<S, device>) {
      if (job_ == job::share) runtimes_[r]->share_ties();
      if (job_ == job::update) reports_[r] = runtimes_[r]->update(update_);
    }
  }

  /// Returns the timeout failure, naming the rank that keeps the others waiting if it can be determined.
  failure overdue() const {
    std::vector<detail::rank_activity> all;
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      auto const& running = *runtimes_[r];
      all.push_back(detail::activity_of(running.program(plan_), running.at(plan_), grid_, rank_id{r}));
    }
    auto const waits = std::ranges::find(all, detail::activity_kind::waiting, &detail::rank_activity::kind);
    auto const from = rank_id{static_cast<std::uint32_t>(waits == all.end() ? 0 : waits - all.begin())};
    auto f = detail::failure_of(detail::find_culprit(all, from), all, from);
    f.detail += "; the step did not finish within " + std::to_string(options_.watchdog.limit.count()) + " ms";
    return f;
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (running_ > 0)
        ranks_.publish(detail::failure_with(failure_code::cancelled, "stopped by the caller"));
    }
    begin_.notify_all();
    for (auto& t : threads_) t.join();
    backend_.end(devices_);
    runtimes_.clear();
    while (!stages_.empty()) detail::end_on(devices_[stages_.size() - 1], [this] { stages_.pop_back(); });
  }

  pipeline_options options_;
  Backend backend_;
  rank_grid grid_;
  host_ranks ranks_;
  std::vector<device> devices_;  // reserved in advance, so elements do not move
  std::vector<S> stages_;
  std::optional<detail::thread_connections<Backend>> connections_;
  std::vector<std::optional<runtime>> runtimes_;
  std::size_t plans_ = 0;

  std::mutex mutex_;
  std::condition_variable begin_, end_;
  job job_ = job::step;              // the current job and its inputs
  std::vector<step_values> values_;  // by replica
  std::size_t plan_ = 0;
  detail::update_options update_;
  std::vector<detail::update_report> reports_;  // by rank
  std::uint64_t jobs_ = 0;
  std::uint32_t running_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};
}  // namespace cleave
