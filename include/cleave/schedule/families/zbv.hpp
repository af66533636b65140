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

namespace cleave::inline v0_2::detail {

/// Builds the list of one rank for `zbv`.
class zbv_order {
 public:
  constexpr zbv_order(std::uint32_t rank, std::uint32_t ranks, std::uint32_t microbatches)
      : rank_(rank),
        ranks_(ranks),
        real_(microbatches),
        all_((std::max)(2 * ranks - 1, microbatches)),
        down_{rank},
        up_{2 * ranks - 1 - rank},
        order_(6 * std::size_t{all_} + rank) {}

  constexpr std::vector<action> take() {
    order_.idle(rank_);
    for (std::uint32_t i = 0; i < 2 * (ranks_ - rank_) - 1; ++i) forward(down_);
    for (std::uint32_t i = 0; i < rank_; ++i) forward(up_), forward(down_);
    for (std::uint32_t i = rank_; i < ranks_; ++i) forward(up_), input(up_), weight(up_);
    while (up_.forward < down_.forward || down_.forward < all_) {
      if (down_.forward < all_) forward(down_);
      input(down_), weight(down_);
      forward(up_), input(up_), weight(up_);
    }
    for (std::uint32_t i = 0; i < rank_; ++i) input(down_), input(up_);
    for (std::uint32_t i = rank_; i < ranks_; ++i) input(down_), weight(down_);
    while (up_.weight < up_.input) weight(up_);
    while (down_.weight < down_.input) weight(down_);
    return order_.take();
  }

 private:
  /// A stage and its next microbatch for each kind of pass.
  struct chunk {
    std::uint32_t stage, forward = 0, input = 0, weight = 0;
  };

  constexpr void forward(chunk& c) { add(action_kind::forward, c.stage, c.forward++); }
  constexpr void input(chunk& c) { add(action_kind::input_gradient, c.stage, c.input++); }
  constexpr void weight(chunk& c) { add(action_kind::weight_gradient, c.stage, c.weight++); }
  constexpr void add(action_kind kind, std::uint32_t stage, std::uint32_t microbatch) {
    if (microbatch < real_)
      order_.add(kind, stage, microbatch);
    else
      order_.idle();
  }

  std::uint32_t rank_, ranks_, real_, all_;
  chunk down_, up_;
  rank_order order_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the ZBV schedule: two stages per rank, on the way down and up, and split backward passes.
///
/// No rank waits once it has begun, if F, I and W take equal time and there are at least 2 ranks - 1
/// microbatches. With fewer microbatches, idle steps take the place of the missing ones. The memory is that
/// of 1F1B. O(actions + ranks^2).
/// Source: Qi et al., ICLR 2024, §6 ("ZBV").
/// \throws schedule_count_error
constexpr schedule zbv(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, 2, microbatches);
  schedule s{detail::wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::zbv_order(r, ranks, microbatches).take());
  return s;
}

}  // namespace cleave
