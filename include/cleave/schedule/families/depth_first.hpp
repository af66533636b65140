// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/families/megatron_interleaved.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_shape.hpp"

namespace cleave {

/// As few microbatches as keep all ranks busy go through all stages, then as many again: the counterpart of
/// breadth-first in Lamy-Poirier, MLSys 2023 ("depth-first"), which is interleaved 1F1B in groups of one
/// microbatch each rank. O(actions).
/// \throws schedule_count_error, and shape_error where microbatches are no multiple of the ranks
constexpr schedule depth_first(std::uint32_t ranks, std::uint32_t stages_per_rank,
                               std::uint32_t microbatches) {
  demand_counts(ranks, stages_per_rank, microbatches);
  if (microbatches % ranks != 0)
    throw shape_error("depth-first", {shape_fault::kind::uneven_rounds, microbatches, ranks});
  return megatron_interleaved(ranks, stages_per_rank, microbatches);
}
}  // namespace cleave
