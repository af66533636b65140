// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "cleave/schedule/search/exact_passes.hpp"
#include "cleave/schedule/search/search_schedule.hpp"

namespace cleave {

/// The schedule of a step that ends first under its caps, on any placement that it may have; or nothing where
/// `options.most_states` are too few to tell. For some 3 ranks and 4 microbatches. Exponential.
/// \throws search_error, schedule_count_error, byte_cap_error
inline std::optional<found_schedule> find_exact_schedule(search_problem const& problem,
                                                         exact_options const& options = {}) {
  auto const steps = detail::runnable_steps(problem, options.form);
  if (problem.microbatches > 0xffff) return std::nullopt;
  detail::candidate_list made(steps, options.form);
  made.add_lists();
  auto const candidates = made.take();
  auto best = candidates.front();
  for (std::size_t i = 0; i < steps.size(); ++i) {
    auto found = detail::exact_passes(steps[i], best.makespan, options);
    if (!found.is_proved) return std::nullopt;
    if (!found.lists) continue;
    best.step = i;
    best.lists = std::move(*found.lists);
    best.makespan = detail::pass_timer(steps[i]).makespan(best.lists);
  }
  auto found = detail::certified(problem, steps, best, options.form);
  found.certificate.bound = found.certificate.makespan;
  found.certificate.reason = "all orders";
  detail::note_beginning(candidates.front(), made.best_family(), found.certificate);
  return found;
}
}  // namespace cleave
