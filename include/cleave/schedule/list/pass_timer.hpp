// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// The makespan of lists that deadlock.
inline constexpr double no_end = std::numeric_limits<double>::infinity();

/// Computes the makespans of many lists of one step. Gives the same times as `simulate` at a fraction of its
/// cost: O(passes) each.
class pass_timer {
 public:
  struct place {
    std::uint32_t rank = 0, position = 0;
  };

  /// Keeps a reference to the step.
  explicit pass_timer(placed_step const& step)
      : step_(step),
        stages_(step.stages.size()),
        ranks_(step.locals.size()),
        pairs_(step.pairs),
        activation_(step.forward.size() * step.microbatches),
        gradient_(activation_) {}

  /// Returns the end of the last pass, or `no_end` if ranks deadlock.
  double makespan(pass_lists const& lists) {
    reset(lists);
    while (!awake_.empty()) {
      auto const r = awake_.back();
      awake_.pop_back();
      auto const& list = lists[r];
      while (ranks_[r].position < list.size() && step(r, list[ranks_[r].position])) ++ranks_[r].position;
    }
    double last = 0;
    for (std::size_t r = 0; r < lists.size(); ++r) {
      if (ranks_[r].position < lists[r].size()) return no_end;
      last = (std::max)(last, ranks_[r].free);
    }
    return last;
  }

  /// Returns the time at which a rank ended, in the lists timed last.
  double end_of(std::size_t rank) const { return ranks_[rank].free; }
  double begin_of(place p) const { return begins_[p.rank][p.position]; }

  /// Returns a critical path of the lists timed last, from its last pass to its first. Each pass begins when
  /// the pass before it, or a message from it, lets it begin. O(passes).
  std::vector<place> critical_passes(pass_lists const& lists) const {
    place at{no_rank, 0};
    for (std::uint32_t r = 0; r < lists.size(); ++r)
      if (!lists[r].empty() && (at.rank == no_rank || ranks_[r].free > ranks_[at.rank].free))
        at = {r, static_cast<std::uint32_t>(lists[r].size() - 1)};
    std::vector<place> path;
    if (at.rank == no_rank) return path;
    for (path.push_back(at); begin_of(at) > 0; path.push_back(at)) {
      auto const cause = causes_[at.rank][at.position];
      if (cause.rank != no_rank)
        at = cause;
      else if (at.position > 0)
        --at.position;
      else
        break;
    }
    return path;
  }

 private:
  static constexpr std::uint32_t no_rank = 0xffffffff;

  struct arrival {
    double time = 0;
    place from{no_rank, 0};
  };
  struct stage_state {
    std::uint32_t forward = 0, gradient = 0, put_off = 0;
    std::uint32_t forward_waiter = no_rank, gradient_waiter = no_rank;
  };
  struct rank_state {
    std::uint32_t position = 0, next_waiter = no_rank;
    double free = 0;
  };

  void reset(pass_lists const& lists) {
    std::ranges::fill(stages_, stage_state{});
    std::ranges::fill(ranks_, rank_state{});
    std::ranges::fill(pairs_, 0.0);
    begins_.resize(lists.size());
    causes_.resize(lists.size());
    for (std::size_t r = 0; r < lists.size(); ++r) {
      begins_[r].resize(lists[r].size());
      causes_[r].resize(lists[r].size());
    }
    awake_.clear();
    for (auto r = static_cast<std::uint32_t>(lists.size()); r-- > 0;) awake_.push_back(r);
  }

  bool step(std::uint32_t r, listed_pass const& p) {
    auto& stage = stages_[p.stage];
    switch (p.kind) {
      case action_kind::forward:
        return forward(r, p.stage, stage);
      case action_kind::weight_gradient:
        if (stage.put_off == 0) return false;
        --stage.put_off;
        occupy(r, {ranks_[r].free}, step_.stages[p.stage].cost.weight_gradient);
        return true;
      default:
        return gradient(r, p, stage);
    }
  }

  bool forward(std::uint32_t r, std::uint32_t s, stage_state& state) {
    auto const microbatch = state.forward;
    if (microbatch == step_.microbatches) return false;
    arrival ready{ranks_[r].free};
    for (auto const e : step_.stages[s].before) {
      auto& sender = stages_[step_.feeding(e)];
      if (sender.forward <= microbatch) return wait(r, sender.forward_waiter);
      auto const& here = activation_[cell(e, microbatch)];
      if (here.time > ready.time) ready = here;
    }
    occupy(r, ready, step_.stages[s].cost.forward);
    ++state.forward;
    for (auto const e : step_.stages[s].after) send(r, step_.forward[e], activation_[cell(e, microbatch)]);
    wake(state.forward_waiter);
    return true;
  }

  bool gradient(std::uint32_t r, listed_pass const& p, stage_state& state) {
    auto const microbatch = state.gradient;
    if (microbatch == state.forward)
      return false;  // only this rank could run that forward pass, and it is later in the list
    arrival ready{ranks_[r].free};
    for (auto const e : step_.stages[p.stage].after) {
      auto& sender = stages_[step_.fed(e)];
      if (sender.gradient <= microbatch) return wait(r, sender.gradient_waiter);
      auto const& here = gradient_[cell(e, microbatch)];
      if (here.time > ready.time) ready = here;
    }
    occupy(r, ready, step_.stages[p.stage].cost.of(p.kind));
    ++state.gradient;
    if (p.kind == action_kind::input_gradient) ++state.put_off;
    for (auto const e : step_.stages[p.stage].before)
      send(r, step_.backward[e], gradient_[cell(e, microbatch)]);
    wake(state.gradient_waiter);
    return true;
  }

  std::size_t cell(std::uint32_t edge, std::uint32_t microbatch) const {
    return edge * std::size_t{step_.microbatches} + microbatch;
  }

  void occupy(std::uint32_t r, arrival const& ready, double time) {
    auto& rank = ranks_[r];
    begins_[r][rank.position] = ready.time;
    causes_[r][rank.position] = ready.from;
    rank.free = ready.time + time;
  }

  void send(std::uint32_t r, placed_message const& m, arrival& to) {
    auto& pair = pairs_[m.pair];
    auto const leaves = (std::max)(ranks_[r].free, pair);
    pair = leaves + m.leaving;
    to = {leaves + m.delay, {r, ranks_[r].position}};
  }

  bool wait(std::uint32_t r, std::uint32_t& waiter) {
    ranks_[r].next_waiter = std::exchange(waiter, r);
    return false;
  }
  void wake(std::uint32_t& waiter) {
    for (auto r = std::exchange(waiter, no_rank); r != no_rank; r = ranks_[r].next_waiter)
      awake_.push_back(r);
  }

  placed_step const& step_;
  std::vector<stage_state> stages_;
  std::vector<rank_state> ranks_;
  std::vector<double> pairs_;                   // until when each directed pair of ranks is busy sending
  std::vector<arrival> activation_, gradient_;  // indexed by edge and microbatch
  std::vector<std::vector<double>> begins_;
  std::vector<std::vector<place>>
      causes_;  // the pass on another rank that this one waited for; rank `no_rank` if none
  std::vector<std::uint32_t> awake_;
};

}  // namespace cleave::detail
