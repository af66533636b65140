// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/families/interleaved_1f1b.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// Returns a schedule for inference: microbatches stream through the stages, without backward passes.
///
/// With several stages per rank, a group of `ranks` microbatches passes through one stage before the rank
/// turns to its next stage. O(actions).
/// \throws schedule_count_error
constexpr schedule forward_only(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                std::uint32_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  auto const all = std::size_t{stages_per_rank} * microbatches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    detail::grouped_walk forwards(stages_per_rank, microbatches, (std::min)(ranks, microbatches));
    detail::rank_order order(all);
    for (std::size_t i = 0; i < all; ++i) {
      auto const [chunk, microbatch] = forwards.next();
      order.forward(chunk * ranks + r, microbatch);
    }
    s.ranks.push_back(order.take());
  }
  return s;
}
}  // namespace cleave
