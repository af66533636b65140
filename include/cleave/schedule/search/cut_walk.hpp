// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/search/bottleneck_cut.hpp"
#include "cleave/schedule/search/cut_step.hpp"
#include "cleave/schedule/search/least_bytes.hpp"
#include "cleave/schedule/search/schedule_candidates.hpp"
#include "cleave/schedule/search/step_bounds.hpp"
#include "cleave/schedule/search/unit_row.hpp"

namespace cleave::detail {

/// How good a cut is: first that all has room, then how long a step takes.
struct cut_value {
  std::uint64_t lacking = 0;  ///< bytes on the rank that lacks most
  double time = no_end;

  auto operator<=>(cut_value const&) const = default;
};

/// The best schedule that rules make for a cut. `passes` grows by those that were timed; `at_best` skips cuts
/// that cannot be better.
inline cut_value value_of(search_problem const& problem, backward_choice form, double at_best,
                          std::uint64_t& passes) {
  auto steps = placed_steps(problem);
  std::uint64_t lacking = 0;
  std::vector<placed_step> runnable;
  double bound = no_end;
  for (auto& step : steps) {
    passes += step.most_passes();
    if (auto const lacks = find_byte_shortage(step, form)) {
      auto const by = lacks->needed - lacks->cap;
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

/// Walks from cut to cut as long as steps become shorter; `cut_for_schedule` is its one use.
class cut_walk {
 public:
  cut_walk(unit_row const& row, cut_step const& step, std::uint32_t stages, cut_options const& options)
      : row_(row),
        step_(step),
        options_(options),
        random_(options.seed),
        start_(bottleneck_cut(row, stages)) {}

  row_cut const& bottleneck() const { return start_; }
  std::uint64_t cuts() const { return values_.size(); }

  /// The best cut that is found until the effort is spent, or until all have been tried.
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

  /// Tries each cut where there are few, or as many as the effort allows; false where there are many.
  bool try_all(row_cut& best) {
    auto const stages = start_.size() - 1, places = row_.units() - 1;
    double count = 1;
    for (std::size_t i = 1; i < stages; ++i)
      count *= static_cast<double>(places + 1 - i) / static_cast<double>(i);
    if (count > static_cast<double>(options_.try_all)) return false;
    row_cut cut(stages + 1);
    for (std::size_t i = 0; i < stages; ++i) cut[i] = static_cast<std::uint32_t>(i);
    cut[stages] = static_cast<std::uint32_t>(row_.units());
    do {
      if (auto const v = value(cut); v < best_) {
        best_ = v;
        best = cut;
      }
    } while (spent_ < effort_ && next_cut(cut));
    return true;
  }

  /// The next in lexicographic order.
  static bool next_cut(row_cut& cut) {
    for (auto i = cut.size() - 1; i-- > 1;)
      if (cut[i] + (cut.size() - 1 - i) < cut.back()) {
        for (auto at = ++cut[i]; ++i < cut.size() - 1;) cut[i] = ++at;
        return true;
      }
    return false;
  }

  /// Moves one boundary, or all from one to another, by a few places, as long as that helps.
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

  /// Boundaries `first` to `last` by so many places; false where a stage would be empty.
  static bool shift(row_cut& cut, std::size_t first, std::size_t last, std::int64_t by) {
    for (auto i = first; i <= last; ++i) {
      auto const to = cut[i] + by;
      if (to <= 0 || to >= cut.back()) return false;
      cut[i] = static_cast<std::uint32_t>(to);
    }
    return cut[first - 1] < cut[first] && cut[last] < cut[last + 1];
  }

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
