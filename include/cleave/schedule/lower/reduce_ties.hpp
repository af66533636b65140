// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/core/tie.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/stage_cost.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2 {

/// Stages that hold copies of the same parameters. The gradients of the copies are summed at the end of a
/// step.
struct tied_stages {
  std::vector<stage_id> stages;  ///< ascending, two or more
  double time = 0;               ///< the duration of the sum, in the unit of the costs

  bool operator==(tied_stages const&) const = default;
};

/// Returns one `tied_stages` for each distinct set of stages that share a tie, in order of first occurrence.
/// The caller sets `time`. Ties within one stage need no sum and are skipped. O(members log members).
inline std::vector<tied_stages> tied_stages_of(std::span<tie const> ties) {
  std::vector<tied_stages> sets;
  for (tie const& t : ties) {
    std::vector<stage_id> stages;
    for (auto const& m : t.members)
      if (m.stage != detail::no_stage) stages.push_back(m.stage);
    std::ranges::sort(stages);
    stages.erase(std::ranges::unique(stages).begin(), stages.end());
    if (stages.size() > 1) sets.push_back({std::move(stages)});
  }
  std::vector<std::size_t> order(sets.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto const of = [&](std::size_t i) -> std::vector<stage_id> const& { return sets[i].stages; };
  std::ranges::sort(order,
                    [&](std::size_t a, std::size_t b) { return of(a) != of(b) ? of(a) < of(b) : a < b; });
  order.erase(std::ranges::unique(order, {}, of).begin(), order.end());
  std::ranges::sort(order);
  std::vector<tied_stages> different;
  for (auto const i : order) different.push_back(std::move(sets[i]));
  return different;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Tied stages whose gradients cannot be summed.
struct tied_stages_fault {
  static constexpr char subject[] = "ties: ";
  enum class kind : std::uint8_t {
    too_few,        ///< fewer than two stages
    not_ascending,  ///< `stage` is not greater than the one before it
    unknown_stage,  ///< `stage` does not exist
    no_gradient,    ///< `stage` has neither B nor W
    time,           ///< the time is out of range
  };
  kind what;
  std::size_t tie = 0;  ///< index of the tie
  stage_id stage{0};

  bool operator==(tied_stages_fault const&) const = default;
};

/// Returns a sentence that names the fault, its place and a remedy.
inline std::string describe(tied_stages_fault const& f) {
  using enum tied_stages_fault::kind;
  auto const tie = "tie #" + std::to_string(f.tie), stage = "stage " + std::to_string(index(f.stage));
  switch (f.what) {
    case too_few:
      return tie + " has fewer than two stages; leave it out";
    case not_ascending:
      return tie + " names " + stage + " after one that is not smaller; name each once, ascending";
    case unknown_stage:
      return tie + " names " + stage + ", which does not exist";
    case no_gradient:
      return tie + " names " + stage + ", which makes no gradients: it does neither B nor W";
    case time:
      return tie + " must take a time from 0 to 1e100";
  }
  return {};
}

using tied_stages_error = fault_error<tied_stages_fault>;

/// Returns the first tie whose gradients cannot be summed, or nothing. O(actions + stages of ties).
inline std::optional<tied_stages_fault> find_tied_stages_fault(schedule const& s,
                                                               std::span<tied_stages const> ties) {
  using enum tied_stages_fault::kind;
  std::vector<char> has_gradient(s.place.stages());
  for (auto const& row : s.ranks)
    each_action(row, [&](action const& a) {
      if ((a.kind == action_kind::backward || a.kind == action_kind::weight_gradient) &&
          index(a.stage) < has_gradient.size())
        has_gradient[index(a.stage)] = 1;
    });
  for (std::size_t t = 0; t < ties.size(); ++t) {
    auto const& stages = ties[t].stages;
    if (stages.size() < 2) return tied_stages_fault{too_few, t};
    for (std::size_t i = 0; i < stages.size(); ++i) {
      if (i > 0 && stages[i] <= stages[i - 1]) return tied_stages_fault{not_ascending, t, stages[i]};
      if (index(stages[i]) >= has_gradient.size()) return tied_stages_fault{unknown_stage, t, stages[i]};
      if (!has_gradient[index(stages[i])]) return tied_stages_fault{no_gradient, t, stages[i]};
    }
    if (!(ties[t].time >= 0 && ties[t].time <= longest_cost)) return tied_stages_fault{time, t, stages[0]};
  }
  return std::nullopt;
}

/// The time at which the gradients of tied stages are summed.
struct tie_reduction {
  std::size_t tie = 0;  ///< index of the tie
  double ready = 0;     ///< the time at which the last gradient of its stages is computed
  double begin = 0, end = 0;

  bool operator==(tie_reduction const&) const = default;
};

/// The times at which each rank of a schedule is busy.
class busy_ranks {
 public:
  /// O(actions).
  busy_ranks(schedule const& s, schedule_times const& times) : spans_(s.ranks.size()) {
    for (std::size_t r = 0; r < s.ranks.size(); ++r)
      for (std::size_t i = 0; i < s.ranks[r].size(); ++i) {
        auto const kind = s.ranks[r][i].kind;
        if (is_compute(kind) || kind == action_kind::recompute) add_last(r, times.spans[r][i]);
      }
  }

  /// Returns the earliest time, not before `from`, from which all `ranks` are idle for `time`.
  /// O(their spans after `from`).
  double idle_together(std::span<std::uint32_t const> ranks, double from, double time) const {
    for (double begin = from;; from = begin) {
      for (auto const r : ranks) begin = idle(r, begin, time);
      if (begin == from) return begin;
    }
  }

  /// Marks a rank as busy in one more span. Precondition: the rank is idle then. O(spans).
  void add(std::uint32_t rank, time_span when) {
    if (when.begin >= when.end) return;
    auto& spans = spans_[rank];
    spans.insert(std::ranges::upper_bound(spans, when.begin, {}, &time_span::begin), when);
  }

 private:
  /// Appends a span. Parts of a compound may overlap, so spans that touch are merged.
  void add_last(std::size_t rank, time_span when) {
    auto& spans = spans_[rank];
    if (when.begin >= when.end) return;
    if (!spans.empty() && when.begin <= spans.back().end)
      spans.back().end = (std::max)(spans.back().end, when.end);
    else
      spans.push_back(when);
  }

  double idle(std::uint32_t rank, double from, double time) const {
    auto const& spans = spans_[rank];
    auto next = std::ranges::upper_bound(spans, from, {}, &time_span::end);
    for (; next != spans.end() && next->begin < from + time; ++next) from = next->end;
    return from;
  }

  std::vector<std::vector<time_span>> spans_;  ///< ascending and disjoint
};

/// Schedules the sums of tied gradients, for `reduce_ties` and `tie_reductions`.
class tie_placer {
 public:
  tie_placer(schedule const& s, std::span<tied_stages const> ties, simulate_options const& options)
      : schedule_(s), ties_(ties), times_(simulate(s, options)), last_gradient_(s.place.stages()) {
    for (auto const& row : s.ranks)
      for (std::size_t i = 0; i < row.size(); ++i)
        if (row[i].kind == action_kind::backward || row[i].kind == action_kind::weight_gradient)
          last_gradient_[index(row[i].stage)] = i;
    place();
  }

  std::vector<tie_reduction> const& reductions() const { return reductions_; }

  schedule take() const {
    schedule reduced = schedule_;
    for (std::uint32_t r = 0; r < reduced.ranks.size(); ++r) reduced.ranks[r] = reduced_row(r);
    return reduced;
  }

 private:
  std::uint32_t rank_of(stage_id s) const { return index(schedule_.place.rank_of[index(s)]); }

  void place() {
    for (std::size_t t = 0; t < ties_.size(); ++t) {
      double ready = 0;
      for (auto const s : ties_[t].stages)
        ready = (std::max)(ready, times_.spans[rank_of(s)][last_gradient_[index(s)]].end);
      reductions_.push_back({t, ready});
    }
    std::ranges::sort(reductions_, {}, [](auto const& r) { return std::pair(r.ready, r.tie); });
    busy_ranks busy(schedule_, times_);
    std::vector<std::uint32_t> ranks;
    for (auto& reduction : reductions_) {
      auto const& tie = ties_[reduction.tie];
      ranks.clear();
      for (auto const s : tie.stages) ranks.push_back(rank_of(s));
      std::ranges::sort(ranks);
      ranks.erase(std::ranges::unique(ranks).begin(), ranks.end());
      reduction.begin = busy.idle_together(ranks, reduction.ready, tie.time);
      reduction.end = reduction.begin + tie.time;
      for (auto const r : ranks) busy.add(r, {reduction.begin, reduction.end});
    }
    std::ranges::sort(reductions_, {},
                      [](auto const& r) { return std::pair(std::pair(r.begin, r.ready), r.tie); });
  }

  /// Returns the start of a cell. A compound begins with its first part.
  double begin_of(std::uint32_t r, std::size_t i) const {
    return times_.spans[r][schedule_.ranks[r][i].parts > 0 ? i + 1 : i].begin;
  }

  std::vector<action> reduced_row(std::uint32_t r) const {
    std::span const row(schedule_.ranks[r]);
    std::vector<action> reduced, waits;
    reduced.reserve(row.size());
    std::size_t i = 0;
    for (auto const& reduction : reductions_) {
      auto const& stages = ties_[reduction.tie].stages;
      for (std::size_t k = 0; k < stages.size(); ++k) {
        if (rank_of(stages[k]) != r) continue;
        auto const after = last_gradient_[index(stages[k])];
        while (i < row.size() && (i <= after || begin_of(r, i) < reduction.begin)) {
          auto const cell = row.subspan(i, std::size_t{1} + row[i].parts);
          reduced.insert(reduced.end(), cell.begin(), cell.end());
          i += cell.size();
        }
        auto const next = stages[(k + 1) % stages.size()];
        reduced.push_back({action_kind::reduce_tie, 0, stages[k], no_microbatch, next});
        waits.push_back({action_kind::wait_reduce_tie, 0, stages[k], no_microbatch, next});
      }
    }
    reduced.insert(reduced.end(), row.begin() + static_cast<std::ptrdiff_t>(i), row.end());
    reduced.insert(reduced.end(), waits.begin(), waits.end());
    return reduced;
  }

  schedule const& schedule_;
  std::span<tied_stages const> ties_;
  schedule_times times_;
  std::vector<std::size_t> last_gradient_;  ///< by stage: the position in the list of its rank
  std::vector<tie_reduction> reductions_;
};

/// Checks that the schedule can run and that the ties fit it. \throws schedule_error, tied_stages_error
inline void require_ties(schedule const& s, std::span<tied_stages const> ties) {
  require_schedule(s, {.passes = passes_of(s)});
  if (auto const f = find_tied_stages_fault(s, ties)) throw tied_stages_error(*f);
}

/// Returns the times at which the gradients of tied stages are summed, ordered by their start.
///
/// A sum begins when all its gradients are computed and all ranks with a copy are idle for its duration. Sums
/// that are ready first are placed first. A sum runs in a bubble if there is one, and otherwise after the
/// last of its ranks has ended. O(actions + ties * actions of their ranks).
/// \throws schedule_error, tied_stages_error, simulate_option_error
inline std::vector<tie_reduction> tie_reductions(schedule const& s, std::span<tied_stages const> ties,
                                                 simulate_options const& options = {}) {
  require_ties(s, ties);
  return tie_placer(s, ties, options).reductions();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule with the sums of tied gradients added. The schedule may be lowered or consist of
/// passes only.
///
/// REDUCE_TIE of each stage begins a sum, with the next stage of the tie, cyclically, as its peer. It is
/// placed in a bubble of all its ranks, or after their last pass if there is no bubble. All ranks begin the
/// sums that they share in one order, and wait for all of them at the end of the step. Until then, a sum
/// blocks no other action. O(actions + ties * actions of their ranks).
/// \throws schedule_error, tied_stages_error, simulate_option_error
inline schedule reduce_ties(schedule const& s, std::span<tied_stages const> ties,
                            simulate_options const& options = {}) {
  detail::require_ties(s, ties);
  return detail::tie_placer(s, ties, options).take();
}

}  // namespace cleave
