// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/schedule/search/bottleneck_cut.hpp"
#include "cleave/schedule/search/cut_step.hpp"
#include "cleave/schedule/search/cut_walk.hpp"
#include "cleave/schedule/search/least_bytes.hpp"
#include "cleave/schedule/search/search_schedule.hpp"
#include "cleave/schedule/search/unit_row.hpp"

namespace cleave {

/// A cut of a row, and the schedule that was found for it.
struct scheduled_cut {
  row_cut cut;
  found_schedule found;
};

struct joint_plan {
  scheduled_cut best;
  /// The cut whose slowest stage is fastest, scheduled with the same effort; nothing where no schedule of it
  /// fits under the caps.
  std::optional<scheduled_cut> bottleneck;
  std::uint64_t cuts = 0;  ///< how many were timed

  /// The share of the step that is saved by not cutting at the bottleneck.
  double gain() const {
    if (!bottleneck || bottleneck->found.certificate.makespan <= 0) return 0;
    return 1 - best.found.certificate.makespan / bottleneck->found.certificate.makespan;
  }
};

}  // namespace cleave

namespace cleave::detail {

inline bool is_faster(std::optional<scheduled_cut> const& a, std::optional<scheduled_cut> const& b) {
  return a && (!b || a->found.certificate.makespan < b->found.certificate.makespan);
}

}  // namespace cleave::detail

namespace cleave {

/// The cut and the schedule together that end a step first, under a cap on memory: cuts are compared by the
/// best schedule that rules make for them, beginning with the bottleneck's and moving one or several places
/// at a time; the best is then searched a schedule for. Never slower than the bottleneck's cut.
///
/// O(effort), and what `search_schedule` takes for two cuts.
/// \throws unit_row_error, search_error, schedule_count_error, byte_cap_error where no cut that was tried
/// fits
inline joint_plan cut_for_schedule(unit_row const& row, cut_step const& step,
                                   cut_options const& options = {}) {
  detail::demand_cut_step(row, step);
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
        if (!least || e.witness.needed - e.witness.cap < least->needed - least->cap) least = e.witness;
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
