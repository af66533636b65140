// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/schedule/families/rank_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// GPipe over several stages a rank: each stage takes all microbatches before the rank turns to its next
/// stage, so that the weights of one stage are needed at a time. Lamy-Poirier, MLSys 2023 ("breadth-first").
/// O(actions). \throws schedule_count_error
constexpr schedule looped_bfs(std::uint32_t ranks, std::uint32_t stages_per_rank,
                              std::uint32_t microbatches) {
  detail::demand_counts_with_idle(ranks, stages_per_rank, microbatches);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::size_t const later = ranks - 1 - r;
    detail::rank_order order(2 * std::size_t{microbatches} * stages_per_rank + r + 2 * later);
    order.idle(r);
    for (std::uint32_t chunk = 0; chunk < stages_per_rank; ++chunk)
      for (std::uint32_t i = 0; i < microbatches; ++i) order.forward(chunk * ranks + r, i);
    order.idle(2 * later);
    for (std::uint32_t chunk = stages_per_rank; chunk-- > 0;)
      for (std::uint32_t i = microbatches; i-- > 0;) order.backward(chunk * ranks + r, i);
    s.ranks.push_back(order.take());
  }
  return s;
}
}  // namespace cleave
