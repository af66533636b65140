// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/invalid_action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_dependencies.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The bytes that a rank keeps from `time` to the next step.
struct memory_step {
  double time = 0;
  std::uint64_t bytes = 0;

  bool operator==(memory_step const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Computes the memory of each rank over time, for `memory_over_time`.
class memory_analysis {
 public:
  memory_analysis(schedule const& s, schedule_times const& t, schedule_bytes const& b)
      : schedule_(s),
        times_(t),
        bytes_(b),
        dependencies_(s),
        numbers_(step_index_of(s)),
        kept_(dependencies_.pairs()),
        recomputed_(dependencies_.pairs()) {
    for (auto const& row : s.ranks)
      for (action const& a : row)
        if (a.kind == action_kind::recompute) recomputed_[pair_of(a)] = 1;
    if (dependencies_.messages())
      received_.resize(numbers_.messages());
    else
      note_results();
  }

  std::vector<memory_step> of_rank(std::size_t r) {
    changes_.clear();
    auto const& row = schedule_.ranks[r];
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row[i].stage != no_stage) note(row[i], times_.spans[r][i]);
    std::ranges::sort(changes_);
    std::vector<memory_step> steps{{0, 0}};
    for (auto const& c : changes_) steps.push_back({c.time, steps.back().bytes + c.more - c.less});
    return steps;
  }

 private:
  struct change {
    double time;
    std::size_t number;  ///< in list order
    std::uint64_t more, less;

    auto operator<=>(change const&) const = default;
  };

  void add(double time, std::uint64_t more, std::uint64_t less) {
    changes_.push_back({time, changes_.size(), more, less});
  }
  std::size_t pair_of(action const& a) const { return numbers_.pass(a.stage, a.microbatch); }
  void change_to(std::uint64_t& kept, double time, std::uint64_t bytes) {
    auto const before = std::exchange(kept, bytes);
    if (before != bytes) add(time, bytes, before);
  }

  void note(action const& a, time_span const& t) {
    using enum action_kind;
    auto const size = bytes_.of_stage(index(a.stage));
    auto const keep = [&](double time, std::uint64_t bytes) { change_to(kept_[pair_of(a)], time, bytes); };
    switch (a.kind) {
      case forward:
        receive_for(a, t);
        keep(t.begin, size.saved);
        if (recomputed_[pair_of(a)]) keep(t.end, size.input);
        return free_received(a, t);
      case backward:
      case input_gradient:
        receive_for(a, t);
        keep(t.end, a.kind == backward ? 0 : size.saved_for_weights);
        return free_received(a, t);
      case weight_gradient:
      case offload:
        return keep(t.end, 0);
      case reload:
      case recompute:
        return keep(t.begin, size.saved);
      case receive_activation:
      case receive_gradient:
        if (auto const e = dependencies_.edge_of(a);
            e != schedule_dependencies::none && dependencies_.crosses_ranks(e)) {
          auto const flow = is_activation_message(a.kind) ? edge_flow::activations : edge_flow::gradients;
          change_to(received_[numbers_.message(e, flow, a.microbatch)], t.begin, size_of(e, flow));
        }
        return;
      default:
        return;
    }
  }

  std::uint64_t size_of(std::uint32_t edge, edge_flow flow) const {
    auto const size = bytes_.of_edge(edge);
    return flow == edge_flow::activations ? size.activation : size.gradient;
  }

  /// Calls `f(edge, flow, maker)` for each value that a pass receives from another rank; `maker` is the stage
  /// that makes it.
  template <class F>
  void each_received(action const& a, F f) const {
    auto const s = index(a.stage);
    auto const& all = schedule_.place.edges;
    if (a.kind == action_kind::forward) {
      for (auto const e : dependencies_.edges().to(s))
        if (dependencies_.crosses_ranks(e)) f(e, edge_flow::activations, index(all[e].from));
    } else {
      for (auto e = dependencies_.edges().begin_from(s); e < dependencies_.edges().end_from(s); ++e)
        if (dependencies_.crosses_ranks(e)) f(e, edge_flow::gradients, index(all[e].to));
    }
  }

  /// In a schedule without messages, allocates the memory of received values when the other rank sends them.
  void receive_for(action const& a, time_span const& t) {
    if (dependencies_.messages()) return;
    each_received(a, [&](std::uint32_t e, edge_flow flow, std::uint32_t maker) {
      auto const event = flow == edge_flow::activations ? dependencies_.forward_done(maker, a.microbatch)
                                                        : dependencies_.gradient_done(maker, a.microbatch);
      if (auto const size = size_of(e, flow); size > 0) add((std::min)(results_[event], t.begin), size, 0);
    });
  }
  void free_received(action const& a, time_span const& t) {
    each_received(a, [&](std::uint32_t e, edge_flow flow, std::uint32_t) {
      if (dependencies_.messages())
        change_to(received_[numbers_.message(e, flow, a.microbatch)], t.end, 0);
      else if (auto const size = size_of(e, flow); size > 0)
        add(t.end, 0, size);
    });
  }

  /// Records when other ranks see the result of each pass: at the end of its compound, if it is in one.
  void note_results() {
    results_.resize(2 * std::size_t{dependencies_.pairs()});
    for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
      auto const& row = schedule_.ranks[r];
      for (std::size_t i = 0, whole = 0, parts = 0; i < row.size(); ++i) {
        if (row[i].parts > 0) whole = i, parts = row[i].parts + std::size_t{1};
        auto const end = times_.spans[r][parts > 0 ? whole : i].end;
        if (parts > 0) --parts;
        action const& a = row[i];
        if (a.kind == action_kind::forward && a.parts == 0)
          results_[dependencies_.forward_done(index(a.stage), a.microbatch)] = end;
        if ((a.kind == action_kind::backward || a.kind == action_kind::input_gradient) && a.parts == 0)
          results_[dependencies_.gradient_done(index(a.stage), a.microbatch)] = end;
      }
    }
  }

  schedule const& schedule_;
  schedule_times const& times_;
  schedule_bytes const& bytes_;
  schedule_dependencies dependencies_;
  step_index numbers_;
  std::vector<std::uint64_t> kept_;      // by stage and microbatch
  std::vector<char> recomputed_;         // by stage and microbatch: true if the pass is recomputed later
  std::vector<std::uint64_t> received_;  // by edge, direction and microbatch
  std::vector<double> results_;          // by event of a pass: the time at which its result is visible
  std::vector<change> changes_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the memory of each rank over time, as ascending steps.
///
/// Counted are saved activations, the activations saved for weight gradients, and received values until the
/// pass that reads them ends. Memory is allocated when an action begins and freed when it ends. Steps at the
/// same time keep the order of their actions. Precondition: `t` are times of `s`. O(actions log actions).
/// \throws schedule_bytes_error, invalid_action_error, stage_placement_error, schedule_count_error
inline std::vector<std::vector<memory_step>> memory_over_time(schedule const& s, schedule_times const& t,
                                                              schedule_bytes const& b = {}) {
  expects(t.spans.size() == s.ranks.size(), "times of this schedule");
  detail::require_valid_actions(s);
  if (auto const f = detail::find_schedule_bytes_fault(b, s.place, 2 * count_actions(s)))
    throw detail::schedule_bytes_error(*f);
  detail::memory_analysis analysis(s, t, b);
  std::vector<std::vector<memory_step>> steps;
  for (std::size_t r = 0; r < s.ranks.size(); ++r) steps.push_back(analysis.of_rank(r));
  return steps;
}

/// Returns the peak memory of each rank, in bytes. O(steps).
inline std::vector<std::uint64_t> peak_bytes(std::vector<std::vector<memory_step>> const& ranks) {
  std::vector<std::uint64_t> peaks;
  for (auto const& steps : ranks)
    peaks.push_back(steps.empty() ? 0 : (std::ranges::max)(steps, {}, &memory_step::bytes).bytes);
  return peaks;
}

}  // namespace cleave
