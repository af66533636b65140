// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/families/dual_pipe_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_shape.hpp"

namespace cleave {

/// DualPipe folded at its middle: two stages a rank, down and up again, forward and backward passes of
/// different microbatches as compounds, and weights kept once. Qi et al., "DualPipe could be better without
/// the Dual", 2025; DeepSeek's DualPipeV. O(actions).
/// \throws schedule_count_error, and shape_error where there are fewer microbatches than stages
constexpr schedule dual_pipe_v(std::uint32_t ranks, std::uint32_t microbatches) {
  demand_counts(ranks, 2, microbatches);
  if (microbatches < 2 * ranks)
    throw shape_error("DualPipeV", {shape_fault::kind::too_few_microbatches, microbatches, 2 * ranks});
  schedule s{detail::wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::dual_pipe_order({.near_stage = r,
                                       .far_stage = 2 * ranks - 1 - r,
                                       .inward = ranks - 1 - r,
                                       .outward = r + 1,
                                       .microbatches = microbatches}));
  return s;
}
}  // namespace cleave
