// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/search/detail/improve_passes.hpp"
#include "cleave/schedule/search/search_schedule.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2 {

/// The result of `reschedule`.
struct rescheduled {
  found_schedule found;
  std::optional<double> before;  ///< makespan of the previous schedule with the new costs; empty if it no
                                 ///< longer fits into memory
  bool is_new = false;           ///< false if the previous schedule is kept

  /// Returns the fraction of the time that is saved.
  double gain() const { return before && *before > 0 ? 1 - found.certificate.makespan / *before : 0; }
};

/// Searches for a new schedule, starting from the current one, for instance with measured costs. Stages stay
/// on their ranks: `step.place` and `step.microbatches` are taken from `previous`. The previous schedule is
/// kept unless the new one is shorter by the fraction `worth`.
/// \throws schedule_error if `previous` cannot run
/// \throws search_error, schedule_count_error, byte_cap_error, infeasible_error as `search_schedule`
inline rescheduled reschedule(schedule const& previous, search_problem step,
                              search_options const& options = {}, double worth = 0) {
  detail::require_schedule(previous);
  step.place = previous.place;
  step.microbatches = previous.microbatches;
  auto const steps = detail::runnable_steps(step, options.form);
  detail::schedule_candidate const now{"previous", std::nullopt, 0, detail::pass_lists_of(previous)};
  auto half = options;
  half.effort /= 2;
  rescheduled made{search_schedule(step, half), std::nullopt, true};
  if (!detail::fits(steps[0], now.lists)) return made;

  auto& certificate = made.found.certificate;
  made.before = simulate(previous, simulate_options_of(step, steps[0])).makespan;
  half.begin_with = 1;
  auto spent = certificate.effort;
  auto const improved = detail::improve_candidates(steps, {now}, half, spent);
  if (improved.makespan < certificate.makespan) {
    auto const rules = certificate;
    made.found = detail::certified(step, steps, improved, options.form);
    certificate.began_with = now.name;
    certificate.began_at = *made.before;
    certificate.best_family = rules.best_family;
    certificate.best_family_makespan = rules.best_family_makespan;
  }
  if (certificate.makespan >= *made.before * (1 - worth)) {
    made.is_new = false;
    made.found = detail::certified(step, steps, now, options.form);
    made.found.order = previous;
    certificate.makespan = *made.before;
  }
  certificate.effort = spent;
  return made;
}
}  // namespace cleave
