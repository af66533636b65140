// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/schedule/families/v_blocks.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// About half the memory of 1F1B and about half its bubble, both the more exactly the more ranks there are.
/// Qi et al., NeurIPS 2024 ("V-Half"). O(actions + ranks^2). \throws schedule_count_error
constexpr schedule v_half(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const p = ranks, shift = ranks % 2 == 0 ? 3u : 0u;
  return detail::v_block_schedule(p, microbatches, [=](std::uint32_t r) {
    return v_block{2 * r, 3 * p - r - 2, 3 * p + shift + 2 * r - 1, 6 * p + shift - r - 2};
  });
}
}  // namespace cleave
