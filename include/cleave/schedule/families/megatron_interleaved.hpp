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

namespace cleave {

struct megatron_options {
  std::uint32_t group = 0;  ///< microbatches that go through a stage before the next; 0: one each rank
  std::uint32_t extra_warm_up = 0;  ///< forward passes ahead; 1 where messages of experts overlap
};

}  // namespace cleave

namespace cleave::detail {

/// A group that lets ranks wait for ever or for long, or nothing.
constexpr std::optional<shape_fault> find_group_fault(std::uint32_t ranks, std::uint32_t microbatches,
                                                      std::uint32_t group) {
  using enum shape_fault::kind;
  if (group < ranks) return shape_fault{group_too_small, group, ranks};
  if (group > microbatches) return shape_fault{group_too_large, group, microbatches};
  auto const last = microbatches % group;
  if (last != 0 && last < ranks) return shape_fault{last_group_too_small, last, ranks};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// Interleaved 1F1B in groups of any size, the last of which may be short: Megatron-LM's
/// `microbatch_group_size_per_vp_stage`. Narayanan et al., SC 2021, §2.2. O(actions).
/// \throws schedule_count_error, and shape_error for a group below the ranks or above the microbatches, or a
/// last group below the ranks
constexpr schedule megatron_interleaved(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                        std::uint32_t microbatches, megatron_options const& options = {}) {
  demand_counts(ranks, stages_per_rank, microbatches);
  auto const group = options.group == 0 ? ranks : options.group;
  if (auto const fault = detail::find_group_fault(ranks, microbatches, group))
    throw shape_error("interleaved 1F1B in groups", *fault);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  auto const all = std::size_t{stages_per_rank} * microbatches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    auto const ahead = 2 * std::size_t{ranks - 1 - r} + options.extra_warm_up;
    auto const warm_up = (std::min)((stages_per_rank - std::size_t{1}) * group + ahead, all);
    detail::grouped_walk forwards(stages_per_rank, microbatches, group), backwards = forwards;
    detail::rank_order order(2 * all);
    for (std::size_t i = 0; i < warm_up + all; ++i) {
      if (i < all) {
        auto const [chunk, microbatch] = forwards.next();
        order.forward(chunk * ranks + r, microbatch);
      }
      if (i >= warm_up) {
        auto const [chunk, microbatch] = backwards.next();
        order.backward((stages_per_rank - 1 - chunk) * ranks + r, microbatch);
      }
    }
    s.ranks.push_back(order.take());
  }
  return s;
}

}  // namespace cleave
