// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2 {

/// Returns the Chimera schedule: 1F1B in both directions at once, over two copies of the model.
///
/// Each direction runs half of the microbatches. Each chain, and therefore the schedule, numbers its half
/// from 0. If F and B take equal time, the bubble is ranks - 2 of them instead of 2 (ranks - 1). The memory
/// is at most that of 1F1B. The order is found by `list_schedule` for equal times. O(actions).
/// Source: Li and Hoefler, SC 2021 ("Chimera").
/// \throws schedule_count_error, and shape_error for odd counts
inline schedule chimera(std::uint32_t ranks, std::uint32_t microbatches) {
  using enum shape_fault::kind;
  require_counts(ranks, 2, microbatches);
  if (ranks % 2 != 0) throw shape_error("Chimera", {odd_ranks, ranks, 0});
  if (microbatches % 2 != 0) throw shape_error("Chimera", {odd_microbatches, microbatches, 0});
  return detail::list_schedule(detail::bidirectional_placement(ranks), microbatches / 2,
                               {.costs = {{.forward = 1, .backward = 1}}, .most_kept = ranks});
}
}  // namespace cleave
