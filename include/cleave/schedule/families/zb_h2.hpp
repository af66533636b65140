// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/schedule/families/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// The list of rank `r`. It is made for 2 ranks - 1 microbatches at least; those that there are not are left
/// out.
constexpr std::vector<action> zb_h2_order(std::uint32_t r, std::uint32_t ranks, std::uint32_t microbatches) {
  auto const all = (std::max)(2 * ranks - 1, microbatches);
  rank_order order(3 * std::size_t{microbatches});
  std::uint32_t f = 0, i = 0, w = 0;
  auto const add = [&](action_kind kind, std::uint32_t& next) {
    if (next < microbatches) order.add(kind, r, next);
    ++next;
  };
  auto const forward = [&] { add(action_kind::forward, f); };
  auto const input = [&] { add(action_kind::input_gradient, i); };
  auto const weight = [&] { add(action_kind::weight_gradient, w); };

  while (f < 2 * (ranks - r) - 1) forward();
  while (i < 2 * r) input(), forward();
  while (f < all) input(), weight(), forward();
  while (i < all) input(), weight();
  while (w < all) weight();
  return order.take();
}

}  // namespace cleave::detail

namespace cleave {

/// One stage a rank, backward passes cut in two, nearly twice the memory of 1F1B: no rank waits once it has
/// begun, where F, I and W take equal time and there are 2 ranks - 1 microbatches or more. A step ends as
/// late as with ZB-H1; what is gained is that the next may begin rank by rank, its optimiser checked
/// afterwards. Qi et al., ICLR 2024, §3 ("ZB-H2"). O(actions + ranks^2). \throws schedule_count_error
constexpr schedule zb_h2(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::demand_counts_with_idle(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) s.ranks.push_back(detail::zb_h2_order(r, ranks, microbatches));
  return s;
}

}  // namespace cleave
