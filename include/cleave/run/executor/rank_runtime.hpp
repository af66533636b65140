// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/real.hpp"
#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/stable_list.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/run/model/wait_on_host.hpp"
#include "cleave/run/program/step_recorder.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::inline v0_2 {

/// The reason why a further plan does not fit the first plan of a run. Stages cannot move between ranks.
struct placement_change {
  static constexpr char subject[] = "another plan: ";
  enum class kind : std::uint8_t {
    rank_count,   ///< the plan has `got` ranks, the first plan has `first`
    stage_count,  ///< the same for the number of stages
    moved,        ///< the plan has `stage` on rank `got`, the first plan has it on rank `first`
  };
  kind what;
  std::uint32_t got = 0, first = 0;
  stage_id stage = {};

  bool operator==(placement_change const&) const = default;
};

/// Says what is wrong, where, and how to fix it.
inline std::string describe(placement_change const& c) {
  auto const got = std::to_string(c.got), first = std::to_string(c.first);
  std::string const mend = "; all plans of a run must have the same stages on the same ranks";
  switch (c.what) {
    case placement_change::kind::rank_count:
      return "it has " + got + " ranks, but the first plan " + first + mend;
    case placement_change::kind::stage_count:
      return "it has " + got + " stages, but the first plan " + first + mend;
    case placement_change::kind::moved:
      return "it has stage " + std::to_string(index(c.stage)) + " on rank " + got +
             ", but the first plan on rank " + first + mend;
  }
  return {};
}

using placement_change_error = fault_error<placement_change>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first difference in placement between plan `other` and plan `first`, or nothing. Edges may
/// differ. O(stages).
inline std::optional<placement_change> find_placement_change(stage_placement const& first,
                                                             stage_placement const& other) {
  using enum placement_change::kind;
  if (other.ranks != first.ranks) return placement_change{rank_count, other.ranks, first.ranks};
  if (other.stages() != first.stages()) return placement_change{stage_count, other.stages(), first.stages()};
  for (std::size_t s = 0; s < first.rank_of.size(); ++s)
    if (other.rank_of[s] != first.rank_of[s])
      return placement_change{moved, index(other.rank_of[s]), index(first.rank_of[s]),
                              stage_id{static_cast<std::uint32_t>(s)}};
  return std::nullopt;
}

/// Returns the gradients of a rank that count towards the norm: of each tie only the first copy.
inline std::vector<region> counted_gradients(std::span<gradients_of_stage const> stages,
                                             std::span<tie_set const> sets) {
  std::vector<stage_gradient> again;
  for (auto const& set : sets)
    for (auto const& t : set.ties) again.insert(again.end(), t.begin() + 1, t.end());
  std::ranges::sort(again);
  std::vector<region> counted;
  for (auto const& s : stages)
    for (std::uint32_t n = 0; n < s.regions.size(); ++n)
      if (!std::ranges::binary_search(again, stage_gradient{s.stage, n})) counted.push_back(s.regions[n]);
  return counted;
}

/// One rank's part in the work between steps: makes tied parameters equal, and runs the optimiser. The
/// constructor's arguments must outlive it. All calls block until their work has ended.
template <measuring_device D, communicator<D> C, updated_stage<D> S>
class parameter_updater {
 public:
  /// `here` are the stages of this rank. Communicators are as for `gradient_reducer`; `pipe` has the ranks
  /// that together have every stage once. `limit` is the longest time that a call waits. Without a limit, the
  /// caller must enforce one.
  parameter_updater(D& d, C& pipe, S& stages, std::vector<stage_id> here, std::vector<tie_set> sets,
                    std::vector<C*> tie_communicators, std::optional<std::chrono::milliseconds> limit = {})
      : device_(d),
        pipe_(pipe),
        stages_(stages),
        here_(std::move(here)),
        sets_(std::move(sets)),
        tie_communicators_(std::move(tie_communicators)),
        limit_(limit),
        ended_(d.make_event()),
        sum_(d.allocate(sizeof(double))),
        stream_(d.make_stream(0)) {}

  /// Copies the first copy of each tied parameter, that of the lowest stage, to all others, bit by bit.
  /// \throws run_error
  void share_ties() {
    until_ = deadline_after(limit_);
    open_sums();
    std::uint32_t number = 0;
    for (std::size_t i = 0; i < sets_.size(); ++i)
      for (auto const& t : sets_[i].ties) share(t, tie_communicators_[i], number++);
  }

  /// Runs an optimiser step on all ranks, or on none if the gradients are not finite. Precondition: all ranks
  /// have summed their gradients and pass the same options.
  /// \throws run_error
  update_report update(update_options const& o) {
    until_ = deadline_after(limit_);
    squares_ = device_.sum_of_squares(counted_gradients(own_gradients(), sets_));
    sum_squares_over_ranks();
    update_report done{magnitude(o.factor) * square_root(squares_), false};
    if (!is_finite(done.norm)) return done;
    auto const step = update_of(done.norm, o);
    for (auto const s : here_) stages_.update(stream_, s, step.factor);
    wait();
    done.applied = true;
    return done;
  }

  /// Returns the same as the end of a step, in which the host waits for nothing. `report` tells the result
  /// once the step has ended.
  /// \throws run_error
  step_end<D> at_end_of_step(update_options const& o)
    requires device_updated_stage<S, D>
  {
    options_ = o;
    if (!norm_) norm_.emplace(device_.make_norm(counted_gradients(own_gradients(), sets_)));
    return {.prepare = [](void* self, stream& s) { static_cast<parameter_updater*>(self)->prepare(s); },
            .issue = [](void* self, stream& s) { static_cast<parameter_updater*>(self)->issue(s); },
            .of = this};
  }
  update_report report() const
    requires device_updated_stage<S, D>
  {
    return norm_->report();
  }

 private:
  using stream = typename D::stream;
  template <class Device, bool = updating_device<Device>>
  struct norm_of {
    using type = int;
  };
  template <class Device>
  struct norm_of<Device, true> {
    using type = typename Device::norm;
  };

  std::vector<gradients_of_stage> own_gradients() {
    std::vector<gradients_of_stage> own;
    for (auto const s : here_) {
      std::span<region const> const g = stages_.gradients(s);
      own.push_back({s, {g.begin(), g.end()}});
    }
    return own;
  }
  void prepare(stream& s) {
    if constexpr (device_updated_stage<S, D>) device_.set_options(s, *norm_, options_);
  }
  void issue(stream& s) {
    if constexpr (device_updated_stage<S, D>) {
      device_.issue_squares(s, *norm_);
      if (pipe_.size() > 1) {
        pipe_.begin_group();
        pipe_.all_reduce(norm_->squares(), reduce_op::sum, 0, s);
        pipe_.end_group(ended_, s);
        device_.wait(s, ended_);
      }
      device_.issue_update(s, *norm_);
      for (auto const i : here_) stages_.update(s, i, norm_->update());
    }
  }

  void sum_squares_over_ranks() {
    if (pipe_.size() < 2) return;
    region const r{sum_.data(), 1, element_type::f64};
    device_.copy(stream_, r.data, &squares_, sizeof squares_);
    reduce(pipe_, r, 0);
    device_.copy(stream_, &squares_, r.data, sizeof squares_);
    wait();
  }

  /// Opens the connections of the sums of `share_ties`, the first time.
  void open_sums() {
    if constexpr (connecting_communicator<C, D>) {
      if (std::exchange(is_open_, true)) return;
      for (std::size_t i = 0; i < sets_.size(); ++i) {
        std::vector<region> sums;
        for (auto const& t : sets_[i].ties)
          for (auto const& g : t)
            if (std::ranges::find(here_, g.stage) != here_.end())
              sums.push_back(as_bits(stages_.parameters(g.stage)[g.number]));
        if (tie_communicators_[i]) tie_communicators_[i]->open_sums(sums, stream_);
      }
    }
  }

  static region as_bits(region const& r) { return {r.data, r.bytes(), element_type::u8}; }

  /// Broadcasts by summing bytes: ranks without the first copy contribute zeros.
  void share(tied_gradients const& t, C* others, std::uint32_t number) {
    std::vector<region> own;
    bool first_is_here = false;
    for (std::size_t n = 0; n < t.size(); ++n)
      for (auto const s : here_)
        if (s == t[n].stage) {
          own.push_back(stages_.parameters(s)[t[n].number]);
          first_is_here |= n == 0;
        }
    if (own.empty()) return;
    auto const bits = as_bits(own.front());
    if (!first_is_here) {
      zeros_.resize((std::max)(zeros_.size(), bits.bytes()));
      device_.copy(stream_, bits.data, zeros_.data(), bits.bytes());
    }
    if (others) reduce(*others, bits, number);
    for (std::size_t n = 1; n < own.size(); ++n) device_.copy(stream_, own[n].data, bits.data, bits.bytes());
    wait();
  }

  void reduce(C& with, region const& r, std::uint32_t number) {
    with.begin_group();
    with.all_reduce(r, reduce_op::sum, number, stream_);
    with.end_group(ended_, stream_);
    device_.wait(stream_, ended_);
  }

  void wait() {
    device_.record(ended_, stream_);
    auto const check = [&] {
      if (auto f = pipe_.poll()) throw run_error(std::move(*f));
    };
    if (!wait_on_host(device_, ended_, until_, check))
      throw run_error({.code = failure_code::timeout,
                       .detail = "it did not finish within " + std::to_string(limit_->count()) + " ms",
                       .reporter = pipe_.rank(),
                       .operation = "update of parameters"});
  }

  D& device_;
  C& pipe_;
  S& stages_;
  std::vector<stage_id> here_;
  std::vector<tie_set> sets_;
  std::vector<C*> tie_communicators_;
  std::optional<std::chrono::milliseconds> limit_;
  std::chrono::steady_clock::time_point until_ = {};
  typename D::event ended_;
  typename D::buffer sum_;
  double squares_ = 0;
  update_options options_ = {};  // of an update at the end of a step
  std::optional<typename norm_of<D>::type> norm_;
  std::vector<std::byte> zeros_;
  bool is_open_ = false;
  typename D::stream stream_;  // last member, destroyed first: its pending work uses the others
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A plan from which rank programs are made: `step_plan` in run/program/make_rank_program.hpp. Code that only
/// runs programs need not include the planning headers.
template <class P>
concept planned_step = requires(P const& p, rank_id r) {
  { make_rank_program(p, r) } -> std::same_as<rank_program>;
  { p.order().place } -> std::convertible_to<stage_placement const&>;
};

/// The communicators of a rank. All pointers must outlive the object that is given them.
template <class C>
struct rank_communicators {
  rank_id here = detail::no_rank;  ///< rank on the rendezvous; `no_rank`: the same as in the pipe
  C* pipe = nullptr;               ///< the ranks that together have every stage once
  C* replicas = nullptr;           ///< the ranks that run the same stages on other samples; null: no replicas
  std::vector<C*> ties = {};  ///< by tie set: the ranks that hold it; null: this rank has none or all of it
};

/// The runtime of one rank. Runs steps of one or several plans on the same stages, such as training and
/// evaluation, and the work between steps. All calls are made on one thread, in the same order on all ranks.
template <measuring_device D, communicator<D> C, rendezvous B, stage<D> S>
class rank_runtime {
 public:
  /// `rank` is the number of this rank in `with.pipe`. All references must outlive the object.
  /// \throws error if there are replicas or ties, but the stages have no `gradients`
  /// \throws bucket_error, tie_gradient_error
  rank_runtime(D& d, rank_communicators<C> with, B& b, S& stages, stage_placement const& place, rank_id rank,
               std::vector<detail::tie_set> sets = {}, detail::bucket_rules const& buckets = {},
               step_mode steps = step_mode::issued)
      : device_(d),
        with_(std::move(with)),
        rendezvous_(b),
        stages_(stages),
        place_{place.ranks, place.rank_of, {}},
        rank_(rank),
        steps_(steps) {
    with_.ties.resize(sets.size());
    for (std::uint32_t s = 0; s < place.stages(); ++s)
      if (place.rank_of[s] == rank) here_.push_back(stage_id{s});
    make_reducer(sets, buckets);
    if constexpr (detail::updated_stage<S, D>) {
      updater_.emplace(device_, *with_.pipe, stages_, here_, std::move(sets), with_.ties);
    }
  }
  rank_runtime(rank_runtime&&) = delete;

  /// Opens the connections of all sums of gradients, where communicators do so at their first use.
  /// Collective; blocks until done.
  /// \throws run_error
  void open_sums() {
    if (reducer_) reducer_->open_sums();
  }

  /// Adds plan `number`. Removes any plan of that number or a greater one first, such as one that other ranks
  /// failed to add.
  /// \throws placement_change_error if a stage would move to another rank
  /// \throws program_need_error if the stages lack a member function that the plan needs
  void add_plan(planned_step auto const& p, std::size_t number) {
    add_plan(p, make_rank_program(p, rank_), number);
  }
  /// Does the same with this rank's program of the plan, made before.
  void add_plan(planned_step auto const& p, rank_program program, std::size_t number) {
    expects(number <= executors_.size(), "rank_runtime: plan numbers are consecutive");
    if (auto const c = detail::find_placement_change(place_, p.order().place))
      throw placement_change_error(*c);
    executors_.keep_first(number);
    executors_.emplace(device_, *with_.pipe, rendezvous_, stages_, std::move(program),
                       detail::executor_options{.reporter = with_.here, .steps = steps_},
                       reducer_ ? &*reducer_ : nullptr);
  }

  /// Runs a step of a plan. Precondition of this and the following functions: plan `plan_number` has been
  /// added.
  void run_step(step_values const& values, std::size_t plan_number) {
    executors_[plan_number].run_step(values);
  }
  /// Runs a step that ends with an optimiser step.
  detail::update_report run_step(step_values const& values, detail::update_options const& o,
                                 std::size_t plan_number)
    requires detail::device_updated_stage<S, D>
  {
    executors_[plan_number].run_step(values, updater_->at_end_of_step(o));
    return updater_->report();
  }
  detail::packed_program const& program(std::size_t plan_number) const {
    return executors_[plan_number].program();
  }
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number, std::size_t plan_number) const {
    return executors_[plan_number].result(m, number);
  }
  std::vector<detail::instruction_time> times(std::size_t plan_number) {
    return executors_[plan_number].times();
  }
  /// Returns the instruction that the rank executes in the program of a plan. From any thread.
  std::uint32_t at(std::size_t plan_number) const { return executors_[plan_number].at(); }

  detail::step_recorder<D>& replays(std::size_t plan_number) { return executors_[plan_number].replays(); }
  detail::step_recorder<D> const& replays(std::size_t plan_number) const {
    return executors_[plan_number].replays();
  }
  /// Releases the recordings of all plans. Precondition: no step follows.
  void forget_recordings() noexcept {
    for (std::size_t i = 0; i < executors_.size(); ++i) executors_[i].replays().forget();
  }

  /// Calls `parameter_updater::share_ties`.
  void share_ties()
    requires detail::updated_stage<S, D>
  {
    updater_->share_ties();
  }
  detail::update_report update(detail::update_options const& o)
    requires detail::updated_stage<S, D>
  {
    return updater_->update(o);
  }

 private:
  using rank_executor = detail::executor<D, C, B, S>;

  void make_reducer(std::vector<detail::tie_set> const& sets, detail::bucket_rules const& buckets) {
    if (auto const f = detail::find_bucket_fault(buckets.plan, place_.stages())) throw bucket_error(*f);
    if (!with_.replicas && sets.empty()) return;
    if constexpr (detail::parameter_stage<S>) {
      std::vector<detail::gradients_of_stage> own;
      for (auto const s : here_) {
        std::span<region const> const g = stages_.gradients(s);
        own.push_back({s, {g.begin(), g.end()}});
      }
      reducer_.emplace(device_, own, with_.replicas, sets, with_.ties, buckets);
    } else {
      throw error("run: replicas and ties need stages with gradients(stage)");
    }
  }

  struct no_updater {};
  template <class Stages, bool = detail::updated_stage<Stages, D>>
  struct updater_of {
    using type = std::optional<no_updater>;
  };
  template <class Stages>
  struct updater_of<Stages, true> {
    using type = std::optional<detail::parameter_updater<D, C, Stages>>;
  };

  D& device_;
  rank_communicators<C> with_;
  B& rendezvous_;
  S& stages_;
  stage_placement place_;  // without edges
  rank_id rank_;
  step_mode steps_;
  std::vector<stage_id> here_;
  std::optional<detail::gradient_reducer<D, C>> reducer_;
  typename updater_of<S>::type updater_;
  detail::stable_list<rank_executor> executors_;
};
}  // namespace cleave
