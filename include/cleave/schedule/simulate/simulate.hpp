// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cleave/core/error.hpp"
#include "cleave/schedule/model/kept_passes.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"
#include "cleave/schedule/model/simulate_options.hpp"
#include "cleave/schedule/simulate/simulated_deadlock.hpp"
#include "cleave/schedule/simulate/time_walk.hpp"
#include "cleave/schedule/verify/deadlock.hpp"

namespace cleave {

/// A schedule in which ranks wait for ever. The witness: where, and who for whom.
class deadlock_error : public witness_error<deadlock> {
 public:
  explicit deadlock_error(deadlock const& d)
      : witness_error("simulate: ranks wait for ever: " + describe(d) + "; reorder what they wait for", d) {}
};

}  // namespace cleave

namespace cleave::detail {

/// \throws stage_cost_error, simulate_option_error
inline void demand_simulate_options(simulate_options const& o, placement const& p) {
  if (auto const f = find_stage_cost_fault(o.costs)) throw stage_cost_error(*f);
  if (auto const f = find_simulate_option_fault(o, p)) throw simulate_option_error(*f);
}

}  // namespace cleave::detail

namespace cleave {

/// Where ranks wait for ever when a schedule is simulated, or nothing where all come to their ends: as
/// `find_deadlock` says for `delivery::async`, and for `delivery::buffered` where messages move within; but a
/// compound whose parts begin together also waits for what it does itself. O(actions), and where it is
/// stuck O(ranks · (the longest list + ranks)).
/// \throws as `simulate`, but no deadlock_error
inline std::optional<deadlock> find_simulated_deadlock(schedule const& s, simulate_options const& o = {}) {
  detail::demand_simulate_options(o, s.place);
  detail::time_walk walk(s, o);
  if (walk.run()) return std::nullopt;
  return detail::simulated_waits(s, walk).found();
}

/// When every action of a schedule runs, whether it computes only or has messages too: every rank does its
/// list in order, each action as soon as the rank is free and what it needs is there. Weights, reductions of
/// gradients and stashes move beside the passes of a rank, messages as the options say. The same options give
/// the same times. O(actions).
/// \throws stage_cost_error, simulate_option_error, stray_action_error, placement_error,
///   schedule_count_error, deadlock_error
inline schedule_times simulate(schedule const& s, simulate_options const& o = {}) {
  detail::demand_simulate_options(o, s.place);
  detail::time_walk walk(s, o);
  if (!walk.run()) throw deadlock_error(detail::simulated_waits(s, walk).found());
  auto times = walk.take();
  times.most_kept = detail::most_kept_passes(s);
  return times;
}

}  // namespace cleave
