// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/random.hpp"
#include "cleave/core/row_cuts.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/model/unit_row.hpp"
#include "cleave/schedule/search/detail/schedule_candidates.hpp"
#include "cleave/schedule/search/least_bytes.hpp"
#include "cleave/schedule/search/search_schedule.hpp"
#include "cleave/schedule/search/step_bounds.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the forward and backward time per microbatch of a stage with the units between two places.
inline double pass_time_between(unit_row const& row, std::size_t from, std::size_t to) {
  auto const c = cost_between(row.cost[from], row.cost[to]);
  return c.forward + c.backward;
}

/// Returns the cut into `stages` non-empty stages whose slowest stage is fastest; the speeds are those of the
/// stages, if there are any. Messages and memory are ignored. O(stages * units * log units). Precondition:
/// the row has no fault for this number of stages.
inline row_cut bottleneck_cut(unit_row const& row, std::uint32_t stages,
                              std::vector<double> const& speed = {}) {
  auto const n = row.units();
  std::vector<double> slowest(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::vector<std::uint32_t>> begin(stages + std::size_t{1}, std::vector<std::uint32_t>(n + 1));
  slowest[0] = 0;
  auto const time_between = [&](std::uint32_t s, std::size_t from, std::size_t to) {
    auto const time = pass_time_between(row, from, to);
    return speed.empty() ? time : time / speed[s - 1];
  };
  for (std::uint32_t s = 1; s <= stages; ++s) {
    auto const before = slowest;
    std::ranges::fill(slowest, std::numeric_limits<double>::infinity());
    for (std::size_t end = s; end <= n; ++end) {
      // As the first unit moves right, the earlier stages get slower and this one faster. The best place is
      // where the two times cross.
      std::size_t low = s - 1, high = end - 1;
      if (s == 1) high = 0;
      while (low < high) {
        auto const middle = (low + high) / 2;
        before[middle] >= time_between(s, middle, end) ? high = middle : low = middle + 1;
      }
      for (auto const b : {low, std::max<std::size_t>(low, s) - 1}) {
        auto const time = (std::max)(before[b], time_between(s, b, end));
        if (time < slowest[end]) {
          slowest[end] = time;
          begin[s][end] = static_cast<std::uint32_t>(b);
        }
      }
    }
  }
  row_cut cut(stages + std::size_t{1}, static_cast<std::uint32_t>(n));
  for (std::uint32_t s = stages; s-- > 0;) cut[s] = begin[s + std::size_t{1}][cut[s + std::size_t{1}]];
  return cut;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A training step whose stages are to be cut out of a row. Members as in `search_problem`.
struct cut_step {
  std::uint32_t ranks = 1;
  std::uint32_t microbatches = 1;
  std::vector<std::uint32_t> stages_per_rank = {1};  ///< the numbers of stages per rank to try
  std::vector<std::uint64_t> memory_limit =
      {};                          ///< bytes per rank: one for each, one for all, or empty for no limit
  std::vector<double> speed = {};  ///< of ranks, as in `search_problem`
  double base_latency = 0;         ///< of every message
  std::vector<rank_link> links = {};
};

/// Options of `cut_for_schedule`.
struct cut_options {
  search_options search = {};
  std::uint64_t seed = 1;
  std::uint64_t effort = 20'000'000;  ///< budget: the number of passes that are timed to compare cuts
  std::uint64_t try_all = 2'000;      ///< if there are at most this many cuts, all are tried
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the problem of scheduling the step with these stages. Precondition: the row has no fault, and the
/// cut is valid.
inline search_problem search_problem_of(unit_row const& row, cut_step const& step, row_cut const& cut) {
  search_problem p{.ranks = step.ranks, .microbatches = step.microbatches};
  p.memory_limit = step.memory_limit;
  p.speed = step.speed;
  p.base_latency = step.base_latency;
  p.links = step.links;
  for (std::size_t s = 0; s + 1 < cut.size(); ++s) {
    auto const from = cut[s], to = cut[s + 1];
    p.costs.push_back(cost_between(row.cost[from], row.cost[to]));
    if (!row.bytes.empty())
      p.bytes.stages.push_back({row.bytes[to].saved - row.bytes[from].saved,
                                row.bytes[to].saved_for_weights - row.bytes[from].saved_for_weights,
                                row.bytes[to].input - row.bytes[from].input});
    if (!row.resident.empty()) p.resident.push_back(row.resident[to] - row.resident[from]);
    if (!row.crossing.empty() && s > 0) p.bytes.edges.push_back(row.crossing[from]);
  }
  return p;
}

/// Checks a row and a step. \throws unit_row_error, search_error, schedule_count_error
inline void require_cut_step(unit_row const& row, cut_step const& step) {
  expects(!step.stages_per_rank.empty(), "cut_for_schedule: stages_per_rank must have at least one entry");
  if (auto const f = find_unit_row_fault(row)) throw unit_row_error(*f);
  for (auto const per_rank : step.stages_per_rank) {
    require_counts(step.ranks, per_rank, step.microbatches);
    auto const stages = per_rank * step.ranks;
    if (auto const f = find_unit_row_fault(row, stages)) throw unit_row_error(*f);
    require_problem(search_problem_of(row, step, bottleneck_cut(row, stages)));
  }
}

/// Returns the speeds of stages that go around the ranks; nothing if the ranks are alike.
inline std::vector<double> speeds_around(cut_step const& step, std::uint32_t stages) {
  std::vector<double> speeds;
  for (std::uint32_t s = 0; s < stages && !step.speed.empty(); ++s)
    speeds.push_back(one_or_each(step.speed)[s % step.ranks]);
  return speeds;
}

/// The quality of a cut: first the memory that is missing, then the time of a step.
struct cut_value {
  std::uint64_t lacking = 0;  ///< bytes missing on the rank with the largest shortage
  double time = no_end;

  auto operator<=>(cut_value const&) const = default;
};

/// Returns the value of the best schedule that families and list scheduling make for a cut. Adds the number
/// of timed passes to `passes`. Skips cuts whose lower bound is `at_best` or more.
inline cut_value value_of(search_problem const& problem, backward_choice form, double at_best,
                          std::uint64_t& passes) {
  auto steps = placed_steps(problem);
  std::uint64_t lacking = 0;
  std::vector<placed_step> runnable;
  double bound = no_end;
  for (auto& step : steps) {
    passes += step.most_passes();
    if (auto const lacks = find_byte_shortage(step, form)) {
      auto const by = lacks->needed - lacks->memory_limit;
      lacking = lacking == 0 ? by : (std::min)(lacking, by);
      continue;
    }
    bound = (std::min)(bound, bounds_of(step, form).best());
    runnable.push_back(std::move(step));
  }
  if (runnable.empty()) return {lacking, no_end};
  if (bound >= at_best) return {0, no_end};
  candidate_list made(runnable, form);
  made.add_families();
  made.add_blocks();
  made.add_lists();
  passes += made.passes_timed();
  auto const candidates = made.take();
  return {0, candidates.empty() ? no_end : candidates.front().makespan};
}

/// A local search over cuts, for `cut_for_schedule`.
class cut_walk {
 public:
  cut_walk(unit_row const& row, cut_step const& step, std::uint32_t stages, cut_options const& options)
      : row_(row),
        step_(step),
        options_(options),
        random_(options.seed),
        start_(bottleneck_cut(row, stages, speeds_around(step, stages))) {}

  row_cut const& bottleneck() const { return start_; }
  std::uint64_t cuts() const { return values_.size(); }

  /// Returns the best cut found before the budget is spent or all cuts have been tried.
  row_cut run(std::uint64_t effort) {
    effort_ = effort;
    auto best = start_;
    best_ = value(best);
    if (try_all(best)) return best;
    for (auto here = best; spent_ < effort_;) {
      auto const tried = values_.size();
      auto const reached = descend(here, value(here));
      if (reached < best_) {
        best_ = reached;
        best = here;
      }
      if (values_.size() == tried && ++idle_rounds_ > 50) break;
      here = best;
      for (auto hops = 1 + random_.below(3); hops-- > 0;) shake(here);
    }
    return best;
  }

 private:
  cut_value value(row_cut const& cut) {
    auto const [at, is_new] = values_.try_emplace(cut);
    if (is_new)
      at->second = value_of(search_problem_of(row_, step_, cut), options_.search.form, best_.time, spent_);
    return at->second;
  }

  /// If there are few cuts, tries each of them within the budget; returns false if there are too many.
  bool try_all(row_cut& best) {
    auto const stages = start_.size() - 1;
    if (number_of_cuts(row_.units(), stages) > static_cast<double>(options_.try_all)) return false;
    auto cut = first_row_cut<std::uint32_t>(row_.units(), stages);
    do {
      if (auto const v = value(cut); v < best_) {
        best_ = v;
        best = cut;
      }
    } while (spent_ < effort_ && next_row_cut(cut));
    return true;
  }

  /// Shifts one boundary, two neighbouring ones, or all from one to the last, by a few places while the value
  /// improves.
  cut_value descend(row_cut& cut, cut_value now) {
    for (bool moved = true; moved && spent_ < effort_;) {
      moved = false;
      for (std::size_t first = 1; first + 1 < cut.size(); ++first)
        for (std::size_t last = first; last + 1 < cut.size(); ++last) {
          if (last > first && last + 2 < cut.size() && last > first + 1) continue;
          for (std::int64_t const by : {-1, 1, -2, 2, -4, 4}) {
            auto next = cut;
            if (!shift(next, first, last, by)) continue;
            if (auto const v = value(next); v < now) {
              now = v;
              cut = std::move(next);
              moved = true;
            }
          }
        }
    }
    return now;
  }

  /// Shifts boundaries `first` to `last` by `by` places; returns false if a stage would become empty.
  static bool shift(row_cut& cut, std::size_t first, std::size_t last, std::int64_t by) {
    for (auto i = first; i <= last; ++i) {
      auto const to = cut[i] + by;
      if (to <= 0 || to >= cut.back()) return false;
      cut[i] = static_cast<std::uint32_t>(to);
    }
    return cut[first - 1] < cut[first] && cut[last] < cut[last + 1];
  }

  /// Shifts a random boundary by up to three places.
  void shake(row_cut& cut) {
    if (cut.size() < 3) return;
    auto const b = 1 + random_.below(cut.size() - 2);
    auto next = cut;
    auto const by = static_cast<std::int64_t>(1 + random_.below(3));
    if (shift(next, b, b, random_.below(2) == 0 ? by : -by)) cut = std::move(next);
  }

  unit_row const& row_;
  cut_step const& step_;
  cut_options const& options_;
  splitmix random_;
  row_cut start_;
  cut_value best_ = {~std::uint64_t{0}, no_end};
  std::map<row_cut, cut_value> values_;
  std::uint64_t spent_ = 0, effort_ = 0;
  std::uint32_t idle_rounds_ = 0;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A cut of a row, and the schedule that was found for it.
struct scheduled_cut {
  row_cut cut;
  found_schedule found;
};

/// The result of `cut_for_schedule`.
struct joint_plan {
  scheduled_cut best;
  /// The cut whose slowest stage is fastest, scheduled with the same effort. Empty if none of its schedules
  /// fits within the memory limits.
  std::optional<scheduled_cut> bottleneck;
  std::uint64_t cuts = 0;  ///< number of cuts that were evaluated

  /// Returns the fraction of the step time saved relative to the bottleneck cut.
  double gain() const {
    if (!bottleneck || bottleneck->found.certificate.makespan <= 0) return 0;
    return 1 - best.found.certificate.makespan / bottleneck->found.certificate.makespan;
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline bool is_faster(std::optional<scheduled_cut> const& a, std::optional<scheduled_cut> const& b) {
  return a && (!b || a->found.certificate.makespan < b->found.certificate.makespan);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Finds a cut and a schedule that together minimize the time of a step within the memory limits.
///
/// Cuts are compared by the best schedule that families and list scheduling make for them. The search starts
/// at the cut that minimizes the slowest stage, and shifts one or several boundaries at a time.
/// `search_schedule` then improves the schedule of the best cut. The result is never slower than that of the
/// starting cut.
///
/// O(effort), plus the time of `search_schedule` for two cuts per entry of `stages_per_rank`.
/// \throws unit_row_error, search_error, schedule_count_error
/// \throws byte_cap_error if no cut that was tried fits
inline joint_plan cut_for_schedule(unit_row const& row, cut_step const& step,
                                   cut_options const& options = {}) {
  detail::require_cut_step(row, step);
  joint_plan chosen;
  std::optional<scheduled_cut> best;
  std::optional<byte_shortage> least;
  for (auto const per_rank : step.stages_per_rank) {
    detail::cut_walk walk(row, step, per_rank * step.ranks, options);
    auto const start = walk.bottleneck();
    auto const found = walk.run(options.effort / step.stages_per_rank.size());
    chosen.cuts += walk.cuts();
    auto const schedule_it = [&](row_cut const& cut) -> std::optional<scheduled_cut> {
      try {
        return scheduled_cut{cut, search_schedule(detail::search_problem_of(row, step, cut), options.search)};
      } catch (byte_cap_error const& e) {
        if (!least || e.witness.needed - e.witness.memory_limit < least->needed - least->memory_limit)
          least = e.witness;
        return std::nullopt;
      }
    };
    auto at_bottleneck = schedule_it(start);
    auto here = found == start ? at_bottleneck : schedule_it(found);
    if (detail::is_faster(at_bottleneck, here)) here = at_bottleneck;
    if (detail::is_faster(here, best)) best = std::move(here);
    if (detail::is_faster(at_bottleneck, chosen.bottleneck)) chosen.bottleneck = std::move(at_bottleneck);
  }
  if (!best) throw byte_cap_error(*least);
  chosen.best = std::move(*best);
  return chosen;
}

}  // namespace cleave
