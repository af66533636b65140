// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave {

/// Waves: each rank has two stages of each wave, on the way down and up, and keeps what `ranks` microbatches
/// need in all its stages, as 1F1B does. Where F and B take equal time, the bubble is that of 1F1B divided by
/// the stages a rank. Liu et al., SC 2023 ("Hanayo"); the order is found by `list_schedule` for equal times,
/// backward passes first, then deeper stages; give `list_schedule` the true times where they are far from
/// equal. O(actions * stages a rank).
/// \throws schedule_count_error, and shape_error for an odd number of stages a rank
inline schedule hanayo(std::uint32_t ranks, std::uint32_t stages_per_rank, std::uint32_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  if (stages_per_rank % 2 != 0)
    throw shape_error("Hanayo", {shape_fault::kind::odd_stages_per_rank, stages_per_rank, 0});
  return detail::list_schedule(
      detail::wave_placement(ranks, stages_per_rank), microbatches,
      {.costs = {{.forward = 1, .backward = 1}}, .most_kept = std::uint64_t{ranks} * stages_per_rank});
}
}  // namespace cleave
