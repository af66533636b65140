// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/families/v_blocks.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// About a third of the memory of 1F1B, the more exactly the more ranks there are, and about two thirds of
/// its bubble. Qi et al., NeurIPS 2024 ("V-Min"). O(actions + ranks^2). \throws schedule_count_error
constexpr schedule v_min(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const p = ranks, shift = ranks % 3 == 0 ? 2u : 0u;
  return detail::v_block_schedule(p, microbatches, [=](std::uint32_t r) {
    return v_block{r, 2 * p - r - 1, 2 * p + shift + r, 4 * p + shift - r - 1};
  });
}
}  // namespace cleave
