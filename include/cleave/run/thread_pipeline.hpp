// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
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
#include "cleave/run/blame.hpp"
#include "cleave/run/executor.hpp"
#include "cleave/run/host_communicator.hpp"
#include "cleave/run/host_device.hpp"
#include "cleave/run/host_group.hpp"
#include "cleave/run/host_ranks.hpp"
#include "cleave/run/make_rank_program.hpp"
#include "cleave/run/program_activity.hpp"
#include "cleave/run/step_plan.hpp"
#include "cleave/run/step_values.hpp"
#include "cleave/run/tied_gradients.hpp"

namespace cleave {

struct thread_options {
  /// How long a step may take; beyond it, the run fails and says who kept the others waiting.
  std::chrono::milliseconds limit = std::chrono::minutes(10);
  /// How many times all stages are there, for samples of their own; their gradients are summed.
  std::uint32_t replicas = 1;
  std::vector<tied_gradients> ties = {};
  std::size_t bucket_bytes = std::size_t{25} << 20;  ///< of gradients that are summed at once
};

/// Runs a schedule on threads of this process, one for each rank, step after step.
///
/// The first failure of any rank ends the run: it leaves `run_step` at once, while calls of stages that go on
/// are not interrupted. The destructor waits for these.
template <stage<host_device> S>
class thread_pipeline {
 public:
  /// `stages[r]` has the stages of rank r: those of the first replica come first.
  /// \throws error where there are not as many as ranks; tie_order_error, program_need_error
  thread_pipeline(step_plan const& p, std::vector<S> stages, thread_options options = {})
      : options_(std::move(options)),
        ranks_in_each_(static_cast<std::uint32_t>(p.order().ranks.size())),
        stages_(std::move(stages)),
        ranks_(demand_ranks(p)),
        board_{&ranks_} {
    auto const sets = tie_sets_of(options_.ties);
    make_groups(p, sets);
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      devices_.emplace_back(ranks_, rank_id{r});
      make_reducer(p, r, sets);
      executors_.push_back(std::make_unique<rank_executor>(devices_[r], pipes_[r], board_, stages_[r],
                                                           make_rank_program(p, rank_id{r % ranks_in_each_}),
                                                           executor_options{}, reducers_[r].get()));
    }
    values_.resize(options_.replicas);
    try {
      for (std::uint32_t r = 0; r < ranks_.count(); ++r) threads_.emplace_back([this, r] { serve(r); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~thread_pipeline() { stop(); }
  thread_pipeline(thread_pipeline&&) = delete;

  std::uint32_t ranks() const { return ranks_.count(); }
  S& stages_of(rank_id r) { return stages_[index(r)]; }

  /// One step on all ranks; `values` of each replica. \throws stage_error, run_error, step_value_error
  void run_step(std::span<step_values const> values) {
    expects(values.size() == options_.replicas, "thread_pipeline: values for every replica");
    if (auto const f = ranks_.poll()) raise(*f);
    for (auto const& e : executors_) demand_step_values(e->program(), values[replica_of(e->program())]);
    std::unique_lock lock(mutex_);
    std::ranges::copy(values, values_.begin());
    running_ = ranks_.count();
    ++step_;
    begin_.notify_all();
    auto const until = std::chrono::steady_clock::now() + options_.limit;
    if (!end_.wait_until(lock, until, [&] { return running_ == 0 || ranks_.failed(); }))
      ranks_.publish(overdue());
    if (auto const f = ranks_.poll()) raise(*f);
  }
  void run_step(step_values const& values) { run_step(std::span(&values, 1)); }

  /// What the caller gets of microbatch `m`, result `number`: until the next step. Nothing where no stage
  /// makes it.
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number, std::uint32_t replica = 0) const {
    for (std::uint32_t r = 0; r < ranks_in_each_; ++r)
      if (auto const v = executors_[replica * ranks_in_each_ + r]->result(m, number)) return v;
    return std::nullopt;
  }

  rank_program const& program(rank_id r) const { return executors_[index(r)]->program(); }
  /// When rank `r` began and ended each instruction of the last step, in nanoseconds since it began it.
  std::vector<instruction_time> times(rank_id r) { return executors_[index(r)]->times(); }

 private:
  /// Shared by all: `host_ranks` knows every rank.
  struct shared_board {
    host_ranks* ranks;
    void publish(failure const& f) noexcept { ranks->publish(f); }
    std::optional<failure> poll() const { return ranks->poll(); }
  };
  using rank_executor = executor<host_device, host_communicator, shared_board, S>;
  using reducer = gradient_reducer<host_device, host_communicator>;

  std::uint32_t demand_ranks(step_plan const& p) const {
    auto const wanted = p.order().ranks.size() * options_.replicas;
    if (options_.replicas == 0) throw error("thread pipeline: there are no replicas; give at least one");
    if (stages_.size() != wanted)
      throw error("thread pipeline: stages of " + std::to_string(stages_.size()) + " ranks are given, but " +
                  std::to_string(wanted) + " ranks run them");
    return static_cast<std::uint32_t>(wanted);
  }

  void make_groups(step_plan const& p, std::vector<tie_set> const& sets) {
    auto const n = ranks_in_each_;
    for (std::uint32_t d = 0; d < options_.replicas; ++d) {
      std::vector<rank_id> members;
      for (std::uint32_t r = 0; r < n; ++r) members.push_back(rank_id{d * n + r});
      groups_.emplace_back(ranks_, members);
      for (std::uint32_t r = 0; r < n; ++r) pipes_.emplace_back(groups_.back(), r);
    }
    replicas_.resize(ranks_.count());
    for (std::uint32_t r = 0; r < n && options_.replicas > 1; ++r) {
      std::vector<rank_id> members;
      for (std::uint32_t d = 0; d < options_.replicas; ++d) members.push_back(rank_id{d * n + r});
      groups_.emplace_back(ranks_, members);
      for (std::uint32_t d = 0; d < options_.replicas; ++d)
        replicas_[d * n + r] = &communicators_.emplace_back(groups_.back(), d);
    }
    ties_.assign(ranks_.count(), std::vector<host_communicator*>(sets.size()));
    for (std::size_t i = 0; i < sets.size(); ++i)
      for (std::uint32_t d = 0; d < options_.replicas; ++d) {
        auto members = ranks_of(sets[i], p.order().place.rank_of);
        if (members.size() < 2) continue;
        for (auto& m : members) m = rank_id{d * n + index(m)};
        groups_.emplace_back(ranks_, members);
        for (std::uint32_t m = 0; m < members.size(); ++m)
          ties_[index(members[m])][i] = &communicators_.emplace_back(groups_.back(), m);
      }
  }

  void make_reducer(step_plan const& p, std::uint32_t r, std::vector<tie_set> const& sets) {
    auto& made = reducers_.emplace_back();
    if constexpr (parameter_stage<S>) {
      if (options_.replicas == 1 && sets.empty()) return;
      std::vector<gradients_of_stage> own;
      for (std::uint32_t s = 0; s < p.order().place.stages(); ++s) {
        if (index(p.rank_of(stage_id{s})) != r % ranks_in_each_) continue;
        std::span<region const> const gradients = stages_[r].gradients(stage_id{s});
        own.push_back({stage_id{s}, {gradients.begin(), gradients.end()}});
      }
      made = std::make_unique<reducer>(devices_[r], own, replicas_[r], sets, ties_[r], options_.bucket_bytes);
    } else if (options_.replicas > 1 || !sets.empty()) {
      throw error("thread pipeline: replicas and ties need stages with gradients(stage)");
    }
  }

  std::size_t replica_of(rank_program const& p) const {
    for (std::size_t r = 0; r < executors_.size(); ++r)
      if (&executors_[r]->program() == &p) return r / ranks_in_each_;
    return 0;
  }

  void serve(std::uint32_t r) {
    for (std::uint64_t done = 0;;) {
      {
        std::unique_lock lock(mutex_);
        begin_.wait(lock, [&] { return stopped_ || step_ > done; });
        if (stopped_) return;
        done = step_;
      }
      try {
        executors_[r]->run_step(values_[r / ranks_in_each_]);
      } catch (...) {  // it has been published
      }
      std::lock_guard lock(mutex_);
      --running_;
      if (running_ == 0 || ranks_.failed()) end_.notify_all();
    }
  }

  /// Who keeps the others waiting, as far as it can be seen.
  failure overdue() const {
    std::vector<rank_activity> all;
    for (std::uint32_t r = 0; r < ranks_.count(); ++r) {
      auto a = activity_of(executors_[r]->program(), executors_[r]->at());
      for (auto& p : a.peers) p = rank_id{r / ranks_in_each_ * ranks_in_each_ + index(p)};
      all.push_back(std::move(a));
    }
    auto const waits = std::ranges::find(all, activity_kind::waiting, &rank_activity::kind);
    auto const from = rank_id{static_cast<std::uint32_t>(waits == all.end() ? 0 : waits - all.begin())};
    auto f = failure_of(find_blame(all, from), all, from);
    f.detail += "; the step may take " + std::to_string(options_.limit.count()) + " ms";
    return f;
  }

  void stop() noexcept {
    {
      std::lock_guard lock(mutex_);
      stopped_ = true;
      if (running_ > 0) ranks_.publish({failure_code::cancelled, {}, "stopped by the caller"});
    }
    begin_.notify_all();
    for (auto& t : threads_) t.join();
  }

  thread_options options_;
  std::uint32_t ranks_in_each_;
  std::vector<S> stages_;
  host_ranks ranks_;
  shared_board board_;
  std::deque<host_group> groups_;
  std::deque<host_communicator> pipes_, communicators_;
  std::vector<host_communicator*> replicas_;           // of ranks; null: none
  std::vector<std::vector<host_communicator*>> ties_;  // of ranks, then sets
  std::deque<host_device> devices_;
  std::vector<std::unique_ptr<reducer>> reducers_;
  std::vector<std::unique_ptr<rank_executor>> executors_;
  std::mutex mutex_;
  std::condition_variable begin_, end_;
  std::vector<step_values> values_;  // of replicas
  std::uint64_t step_ = 0;
  std::uint32_t running_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace cleave
