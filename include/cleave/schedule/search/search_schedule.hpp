// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/list/pass_lists.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/list/search_problem.hpp"
#include "cleave/schedule/search/detail/improve_passes.hpp"
#include "cleave/schedule/search/detail/schedule_candidates.hpp"
#include "cleave/schedule/search/least_bytes.hpp"
#include "cleave/schedule/search/schedule_certificate.hpp"
#include "cleave/schedule/search/step_bounds.hpp"
#include "cleave/schedule/simulate/simulate.hpp"
#include "cleave/schedule/verify/verify.hpp"

namespace cleave::inline v0_2 {

/// Options of `search_schedule`.
struct search_options {
  backward_choice form = backward_choice::either;  ///< the kinds of backward passes that the stages support
  std::uint64_t seed = 1;                          ///< equal seeds give equal schedules
  std::uint64_t effort = 20'000'000;  ///< number of passes timed during improvement; about 20 ns each
  std::uint32_t begin_with = 3;       ///< number of constructed schedules that are improved
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the placements on which every rank has enough memory.
/// \throws search_error, schedule_count_error
/// \throws byte_cap_error if there is no such placement
inline std::vector<placed_step> runnable_steps(search_problem const& problem, backward_choice form) {
  require_problem(problem);
  auto steps = placed_steps(problem);
  std::optional<byte_shortage> least;
  std::vector<placed_step> runnable;
  for (auto& step : steps) {
    auto const lacks = find_byte_shortage(step, form);
    if (!lacks)
      runnable.push_back(std::move(step));
    else if (!least || lacks->needed - lacks->memory_limit < least->needed - least->memory_limit)
      least = lacks;
  }
  if (runnable.empty()) throw byte_cap_error(*least);
  return runnable;
}

/// Builds the schedule of a candidate and its certificate: times by the simulator, faults by the verifier,
/// and the lower bound. \throws schedule_error if the verifier finds a fault
inline found_schedule certified(search_problem const& problem, std::vector<placed_step> const& steps,
                                schedule_candidate const& c, backward_choice form) {
  auto const& step = steps[c.step];
  found_schedule found{schedule_of(step.place, step.microbatches, c.lists), {}};
  auto& certificate = found.certificate;
  require_schedule(found.order);
  auto const times = simulate(found.order, simulate_options_of(problem, step));
  certificate.makespan = times.makespan;
  for (std::size_t r = 0; r < c.lists.size(); ++r)
    certificate.peak_bytes.push_back(step.resident[r] + most_kept(step, c.lists[r]));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto const bounds = bounds_of(steps[i], form);
    if (i == c.step) certificate.bounds = bounds;
    if (i > 0 && bounds.best() >= certificate.bound) continue;
    certificate.bound = bounds.best();
    certificate.reason = bounds.reason();
  }
  if (certificate.bound <= certificate.makespan * (1 + 1e-9))
    certificate.bound = (std::min)(certificate.bound, certificate.makespan);
  return found;
}

/// Improves the best candidates, each with the same share of the effort; returns the best result.
/// Precondition: there is at least one candidate.
inline schedule_candidate improve_candidates(std::vector<placed_step> const& steps,
                                             std::vector<schedule_candidate> candidates,
                                             search_options const& options, std::uint64_t& spent) {
  auto const count = std::min<std::size_t>(candidates.size(), (std::max)(options.begin_with, 1u));
  schedule_candidate best = candidates.front();
  for (std::size_t i = 0; i < count; ++i) {
    auto& c = candidates[i];
    auto const& step = steps[c.step];
    auto improved =
        improve_passes(step, std::move(c.lists),
                       {.seed = options.seed + i, .effort = options.effort / count, .form = options.form},
                       bounds_of(step, options.form).best() * (1 + 1e-12));
    spent += improved.effort;
    if (improved.makespan < best.makespan) {
      best.step = c.step;
      best.lists = std::move(improved.lists);
      best.makespan = improved.makespan;
    }
  }
  return best;
}

/// Records the candidate from which a search started.
inline void note_beginning(schedule_candidate const& first,
                           std::optional<schedule_candidate> const& best_family, schedule_certificate& to) {
  to.began_with = first.name;
  to.family = first.family;
  to.began_at = first.makespan;
  if (!best_family) return;
  to.best_family = best_family->name;
  to.best_family_makespan = best_family->makespan;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Searches for a short schedule of a step that fits within the memory limits.
///
/// Candidates are all schedule families with their parameters, the building blocks of the controllable-memory
/// family, and list schedules for the given costs. Local search improves the best of them. The result comes
/// with a certificate, and is never slower than its starting point. Times assume that messages overlap with
/// passes.
///
/// O(passes * (families + list rules) + effort), and O(passes log passes) for the bounds.
/// \throws search_error, schedule_count_error, byte_cap_error
/// \throws infeasible_error if no candidate fits within the memory limits
inline found_schedule search_schedule(search_problem const& problem, search_options const& options = {}) {
  auto const steps = detail::runnable_steps(problem, options.form);
  detail::candidate_list made(steps, options.form);
  made.add_families();
  made.add_blocks();
  made.add_lists();
  std::uint64_t spent = made.passes_timed();
  auto const candidates = made.take();
  if (candidates.empty())
    throw infeasible_error(
        "schedule: none of the known schedules fits within the memory limits; raise the limits or use "
        "smaller microbatches");

  auto const best = detail::improve_candidates(steps, candidates, options, spent);
  auto found = detail::certified(problem, steps, best, options.form);
  found.certificate.effort = spent;
  detail::note_beginning(candidates.front(), made.best_family(), found.certificate);
  return found;
}

}  // namespace cleave
