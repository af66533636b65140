// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// Returns a list with `warm_up` forward passes of `stage`, then backward and forward passes in turn, then
/// the remaining backward passes. O(microbatches).
constexpr std::vector<action> one_f_one_b_order(std::uint32_t stage, std::uint32_t microbatches,
                                                std::uint32_t warm_up) {
  rank_order order(2 * std::size_t{microbatches});
  std::uint32_t forward = 0;
  while (forward < (std::min)(warm_up, microbatches)) order.forward(stage, forward++);
  for (std::uint32_t backward = 0; backward < microbatches; ++backward) {
    order.backward(stage, backward);
    if (forward < microbatches) order.forward(stage, forward++);
  }
  return order.take();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the 1F1B schedule: forward and backward passes in turn, as early as possible. Rank r keeps the
/// saved activations of ranks - r microbatches, or of all if there are fewer. The bubble is that of GPipe.
/// O(actions).
/// Source: Narayanan et al., SOSP 2019 and SC 2021, §2.2 ("1F1B with flush").
/// \throws schedule_count_error
constexpr schedule one_f_one_b(std::uint32_t ranks, std::uint32_t microbatches) {
  require_counts(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::one_f_one_b_order(r, microbatches, ranks - r));
  return s;
}

/// Returns 1F1B with twice the forward passes in the warm-up, so that a message has a whole step to arrive.
/// It is as fast as 1F1B if messages take no time, and faster if they do, for twice the memory. O(actions).
/// \throws schedule_count_error
constexpr schedule eager_1f1b(std::uint32_t ranks, std::uint32_t microbatches) {
  require_counts(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::one_f_one_b_order(r, microbatches, 2 * (ranks - 1 - r) + 1));
  return s;
}

}  // namespace cleave
