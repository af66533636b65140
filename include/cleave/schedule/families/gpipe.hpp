// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// Returns the GPipe schedule: all forward passes, then all backward passes, with idle steps where a rank
/// waits. Each stage keeps the saved activations of all `microbatches`. O(actions).
/// Source: Huang et al., NeurIPS 2019 ("GPipe").
/// \throws schedule_count_error
constexpr schedule gpipe(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::size_t const later = ranks - 1 - r;
    detail::rank_order order(2 * std::size_t{microbatches} + r + 3 * later);
    order.idle(r);
    for (std::uint32_t i = 0; i < microbatches; ++i) order.forward(r, i);
    order.idle(3 * later);
    for (std::uint32_t i = 0; i < microbatches; ++i) order.backward(r, i);
    s.ranks.push_back(order.take());
  }
  return s;
}
}  // namespace cleave
