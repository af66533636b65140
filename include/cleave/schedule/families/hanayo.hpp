// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/list/list_schedule.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2 {

/// Returns the Hanayo schedule: the chain of stages runs over the ranks in waves, down and up. Each rank has
/// two stages of each wave.
///
/// A rank keeps the saved activations of `ranks` microbatches in all its stages, as in 1F1B. If F and B take
/// equal time, the bubble is that of 1F1B divided by the stages per rank. The order is found by
/// `list_schedule` for equal times; it prefers backward passes, then deeper stages. Call `list_schedule` with
/// the true times if they are far from equal. O(actions * stages per rank).
/// Source: Liu et al., SC 2023 ("Hanayo").
/// \throws schedule_count_error, and shape_error for an odd number of stages per rank
inline schedule hanayo(std::uint32_t ranks, std::uint32_t stages_per_rank, std::uint32_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  if (stages_per_rank % 2 != 0)
    throw shape_error("Hanayo", {shape_fault::kind::odd_stages_per_rank, stages_per_rank, 0});
  return detail::list_schedule(
      detail::wave_placement(ranks, stages_per_rank), microbatches,
      {.costs = {{.forward = 1, .backward = 1}}, .most_kept = std::uint64_t{ranks} * stages_per_rank});
}
}  // namespace cleave
