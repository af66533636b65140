// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "cleave/schedule/families/dual_pipe_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_shape.hpp"

namespace cleave::detail {

/// Why DualPipe does not take so many, or nothing.
constexpr std::optional<shape_fault> find_dual_pipe_fault(std::uint32_t ranks, std::uint32_t microbatches) {
  using enum shape_fault::kind;
  if (ranks % 2 != 0) return shape_fault{odd_ranks, ranks, 0};
  if (microbatches % 2 != 0) return shape_fault{odd_microbatches, microbatches, 0};
  if (microbatches / 2 < ranks) return shape_fault{too_few_microbatches, microbatches, 2 * ranks};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// Microbatches enter at both ends: two chains of `ranks` stages in opposite directions, whose weights each
/// rank has twice. `microbatches` counts both directions; each chain, and so the schedule, numbers its half
/// from 0. DeepSeek-V3 technical report, 2024, §3.2.1 ("DualPipe"). O(actions).
/// \throws schedule_count_error, and shape_error for odd counts and fewer microbatches than 2 ranks
constexpr schedule dual_pipe(std::uint32_t ranks, std::uint32_t microbatches) {
  demand_counts(ranks, 2, microbatches);
  if (auto const fault = detail::find_dual_pipe_fault(ranks, microbatches)) throw shape_error("DualPipe", *fault);
  schedule s{detail::bidirectional_placement(ranks), microbatches / 2, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    bool const first_half = r < ranks / 2;
    auto const one = r, other = 2 * ranks - 1 - r, outward = (std::min)(r, ranks - 1 - r) + 1;
    s.ranks.push_back(detail::dual_pipe_order({.near_stage = first_half ? one : other,
                                       .far_stage = first_half ? other : one,
                                       .inward = ranks / 2 - outward,
                                       .outward = outward,
                                       .microbatches = microbatches / 2}));
  }
  return s;
}

}  // namespace cleave
