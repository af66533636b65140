// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cleave/schedule/families/grouped_walk.hpp"
#include "cleave/schedule/families/rank_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_shape.hpp"

namespace cleave::detail {

/// As many microbatches as go through a stage before the rank turns to its next one: as few as one each rank,
/// all of equal size.
constexpr std::uint32_t round_size(std::uint32_t ranks, std::uint32_t microbatches) {
  return microbatches / (std::max)(1u, microbatches / ranks);
}

/// Microbatches that do not make rounds of equal size, or nothing.
constexpr std::optional<shape_fault> find_uneven_rounds(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const rounds = (std::max)(1u, microbatches / ranks);
  if (microbatches % rounds == 0) return std::nullopt;
  return shape_fault{shape_fault::kind::uneven_rounds, microbatches, rounds};
}

}  // namespace cleave::detail

namespace cleave {

/// 1F1B over several stages a rank, with the steps in which a rank waits: the bubble of 1F1B divided by the
/// stages a rank, for more messages. Narayanan et al., SC 2021, §2.2; rounds as in PyTorch. O(actions).
/// \throws schedule_count_error, and shape_error where microbatches are no multiple of max(1, microbatches
/// div ranks)
constexpr schedule interleaved_1f1b(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                    std::uint32_t microbatches) {
  detail::demand_counts_with_idle(ranks, stages_per_rank, microbatches);
  if (auto const fault = detail::find_uneven_rounds(ranks, microbatches))
    throw shape_error("interleaved 1F1B", *fault);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  auto const all = std::size_t{stages_per_rank} * microbatches;
  auto const group = detail::round_size(ranks, microbatches);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::size_t const later = ranks - 1 - r;
    auto const warm_up = (std::min)((stages_per_rank - std::size_t{1}) * group + 2 * later, all);
    auto const first_gradient = std::size_t{stages_per_rank} * ranks + 2 * later;
    detail::grouped_walk forwards(stages_per_rank, microbatches, group), backwards = forwards;
    detail::rank_order order(2 * all + first_gradient + warm_up);
    auto const forward = [&] {
      auto const [chunk, microbatch] = forwards.next();
      order.forward(chunk * ranks + r, microbatch);
    };
    auto const backward = [&] {
      auto const [chunk, microbatch] = backwards.next();
      order.backward((stages_per_rank - 1 - chunk) * ranks + r, microbatch);
    };

    order.idle(r);
    for (std::size_t i = 0; i < warm_up; ++i) forward();
    if (warm_up > 0 && first_gradient > order.size()) order.idle(first_gradient - order.size());
    for (std::size_t i = warm_up; i < all; ++i) forward(), backward();
    for (std::size_t i = 0; i < warm_up; ++i) order.idle(), backward();
    s.ranks.push_back(order.take());
  }
  return s;
}

}  // namespace cleave
