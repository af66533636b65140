// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/executor/detail/executor.hpp"
#include "cleave/run/gradients/gradient_reducer.hpp"
#include "cleave/run/gradients/parameter_updater.hpp"
#include "cleave/run/gradients/tied_gradients.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/recording.hpp"
#include "cleave/run/model/steady_list.hpp"
#include "cleave/run/program/placement_change.hpp"
#include "cleave/run/program/step_recorder.hpp"
#include "cleave/run/program/step_values.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave {

/// What programs are made of: a `step_plan` (run/program/make_rank_program.hpp). Those who only run programs
/// need not compile what plans them.
template <class P>
concept planned_step = requires(P const& p, rank_id r) {
  { make_rank_program(p, r) } -> std::same_as<rank_program>;
  { p.order().place } -> std::convertible_to<placement const&>;
};

/// With whom a rank works together. What is pointed to must outlive whoever is given it.
template <class C>
struct rank_communicators {
  rank_id here = detail::no_rank;  ///< who it is on the board; none: as in the pipe
  C* pipe = nullptr;               ///< all ranks that together have every stage once
  C* replicas = nullptr;           ///< those that run the same stages on other samples; null: there are none
  std::vector<C*> ties = {};  ///< for each set of ties the ranks that hold it; null: this one has none or all
};

/// All that one rank does: steps by one or several plans on the same stages, such as training and evaluation,
/// and what comes between them. Everything is called on one thread, in the same order on all ranks.
template <measuring_device D, communicator<D> C, board B, stage<D> S>
class rank_runtime {
 public:
  /// `rank` among those of `with.pipe`. What is referred to must outlive it.
  /// \throws error where there are replicas or ties, and the stages have no gradients
  rank_runtime(D& d, rank_communicators<C> with, B& b, S& stages, placement const& place, rank_id rank,
               std::vector<detail::tie_set> sets = {}, std::size_t bucket_bytes = std::size_t{25} << 20,
               step_mode steps = step_mode::issued)
      : device_(d),
        with_(std::move(with)),
        board_(b),
        stages_(stages),
        place_(place),
        rank_(rank),
        steps_(steps) {
    with_.ties.resize(sets.size());
    for (std::uint32_t s = 0; s < place.stages(); ++s)
      if (place.rank_of[s] == rank) here_.push_back(stage_id{s});
    make_reducer(sets, bucket_bytes);
    if constexpr (detail::updated_stage<S, D>) {
      updater_.emplace(device_, *with_.pipe, stages_, here_, std::move(sets), with_.ties);
    }
  }
  rank_runtime(rank_runtime&&) = delete;

  /// As plan `number`; any of that number or a greater one, which others could not add, is forgotten.
  /// \throws placement_change_error where stages would move; program_need_error
  void add_plan(planned_step auto const& p, std::size_t number) {
    expects(number <= executors_.size(), "rank_runtime: plans are numbered one after the other");
    if (auto const c = detail::find_placement_change(place_, p.order().place))
      throw placement_change_error(*c);
    executors_.keep_first(number);
    executors_.emplace(device_, *with_.pipe, board_, stages_, make_rank_program(p, rank_),
                       detail::executor_options{.reporter = with_.here, .steps = steps_},
                       reducer_ ? &*reducer_ : nullptr);
  }

  /// Precondition throughout: there is such a plan.
  void run_step(step_values const& values, std::size_t plan_number) {
    executors_[plan_number].run_step(values);
  }
  rank_program const& program(std::size_t plan_number) const { return executors_[plan_number].program(); }
  std::optional<tensor_view> result(microbatch_id m, std::uint32_t number, std::size_t plan_number) const {
    return executors_[plan_number].result(m, number);
  }
  std::vector<detail::instruction_time> times(std::size_t plan_number) {
    return executors_[plan_number].times();
  }
  /// Where the rank is in the program of a plan. From any thread.
  std::uint32_t at(std::size_t plan_number) const { return executors_[plan_number].at(); }

  detail::step_recorder<D>& replays(std::size_t plan_number) { return executors_[plan_number].replays(); }
  detail::step_recorder<D> const& replays(std::size_t plan_number) const {
    return executors_[plan_number].replays();
  }
  /// Lets go of what was recorded by all plans. Precondition: no step follows.
  void forget_recordings() noexcept {
    for (std::size_t i = 0; i < executors_.size(); ++i) executors_[i].replays().forget();
  }

  /// As of `parameter_updater`.
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

  void make_reducer(std::vector<detail::tie_set> const& sets, std::size_t bucket_bytes) {
    if (!with_.replicas && sets.empty()) return;
    if constexpr (detail::parameter_stage<S>) {
      std::vector<detail::gradients_of_stage> own;
      for (auto const s : here_) {
        std::span<region const> const g = stages_.gradients(s);
        own.push_back({s, {g.begin(), g.end()}});
      }
      reducer_.emplace(device_, own, with_.replicas, sets, with_.ties, bucket_bytes);
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
  B& board_;
  S& stages_;
  placement place_;
  rank_id rank_;
  step_mode steps_;
  std::vector<stage_id> here_;
  std::optional<detail::gradient_reducer<D, C>> reducer_;
  typename updater_of<S>::type updater_;
  detail::steady_list<rank_executor> executors_;
};
}  // namespace cleave
