// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/families/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// When one microbatch is at a rank, in steps: the forward pass on the way down and up, the input gradient of
/// the stage up and down. The next microbatch follows six steps later.
struct v_block {
  std::uint32_t forward_down, forward_up, input_up, input_down;
};

}  // namespace cleave

namespace cleave::detail {

/// The list of one rank, weight gradients in the steps that the block leaves free, first come, first served.
/// Idle steps are left out. Precondition: the four differ modulo 6. O(microbatches + steps of a block).
constexpr std::vector<action> v_block_order(v_block const& b, std::uint32_t down, std::uint32_t up,
                                            std::uint32_t microbatches) {
  struct track {
    action_kind kind;
    std::uint32_t stage, begin, next = 0;
  };
  std::array<track, 4> tracks{{{action_kind::forward, down, b.forward_down},
                               {action_kind::forward, up, b.forward_up},
                               {action_kind::input_gradient, up, b.input_up},
                               {action_kind::input_gradient, down, b.input_down}}};
  std::array<track*, 6> of_step{};
  for (auto& t : tracks) of_step[t.begin % 6] = &t;

  rank_order order(6 * std::size_t{microbatches});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> weights;  // stage, microbatch
  weights.reserve(2 * std::size_t{microbatches});
  std::size_t next_weight = 0;
  for (std::uint32_t step = 0; next_weight < 2 * std::size_t{microbatches}; ++step) {
    track* const t = of_step[step % 6];
    if (t && step >= t->begin && t->next < microbatches) {
      order.add(t->kind, t->stage, t->next);
      if (t->kind == action_kind::input_gradient) weights.emplace_back(t->stage, t->next);
      ++t->next;
    } else if (next_weight < weights.size()) {
      auto const [stage, microbatch] = weights[next_weight++];
      order.weight_gradient(stage, microbatch);
    }
  }
  return order.take();
}

/// All ranks' lists, `block(r)` of each. Qi et al., NeurIPS 2024 ("Pipeline Parallelism with Controllable
/// Memory").
template <class Block>
constexpr schedule v_block_schedule(std::uint32_t ranks, std::uint32_t microbatches, Block block) {
  demand_counts_with_idle(ranks, 2, microbatches);
  schedule s{wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(v_block_order(block(r), r, 2 * ranks - 1 - r, microbatches));
  return s;
}

}  // namespace cleave::detail
