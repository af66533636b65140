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

namespace cleave::detail {

/// Makes the list of one rank; `zbv` is its one use.
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
  /// A stage and its next microbatches.
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

namespace cleave {

/// Two stages a rank on the way down and up again, backward passes cut in two: no rank waits once it has
/// begun, where F, I and W take equal time and there are 2 ranks - 1 microbatches or more; fewer leave idle
/// steps in their place. The memory of 1F1B. Qi et al., ICLR 2024, §6 ("ZBV"). O(actions + ranks^2).
/// \throws schedule_count_error
constexpr schedule zbv(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, 2, microbatches);
  schedule s{detail::wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::zbv_order(r, ranks, microbatches).take());
  return s;
}

}  // namespace cleave
