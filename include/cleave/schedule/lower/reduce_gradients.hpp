// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// The time at which a rank waits for the reduction of a stage's gradients.
enum class reduction_wait : std::uint8_t {
  /// Right after the reduction begins.
  at_once,
  deferred,  ///< before the rank begins another reduction, or at the end of its list
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a list that reduces the gradients of each stage across replicas after the last of its
/// `microbatches` B or W passes. If that pass is in a compound, the reduction follows the whole compound.
/// Idle steps are dropped. A stage with fewer such passes gets no reduction; if it has more, the excess is
/// ignored. O(actions log(stages)).
inline std::vector<action> reduce_gradients(std::span<action const> row, std::uint32_t microbatches,
                                            reduction_wait wait = reduction_wait::at_once) {
  rank_stages const stages(row);
  std::vector<std::uint32_t> done(stages.count());
  std::vector<action> reduced;
  reduced.reserve(row.size() + std::size_t{2} * stages.count());
  std::optional<stage_id> pending;
  auto const add = [&](action_kind kind, stage_id s) {
    reduced.push_back({kind, 0, s, no_microbatch, no_stage});
  };
  auto const end_pending = [&] {
    if (auto const s = std::exchange(pending, std::nullopt)) add(action_kind::wait_reduce_gradient, *s);
  };
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    if (head.kind == action_kind::idle) return;
    reduced.push_back(head);
    reduced.insert(reduced.end(), parts.begin(), parts.end());
    each_action(parts.empty() ? std::span(&head, 1) : parts, [&](action const& a) {
      if (a.kind != action_kind::backward && a.kind != action_kind::weight_gradient) return;
      if (++done[stages.number(a.stage)] != microbatches) return;
      end_pending();
      add(action_kind::reduce_gradient, a.stage);
      pending = a.stage;
      if (wait == reduction_wait::at_once) end_pending();
    });
  });
  end_pending();
  return reduced;
}

/// Adds reductions on every rank. O(actions log(stages)).
inline schedule reduce_gradients(schedule s, reduction_wait wait = reduction_wait::at_once) {
  for (auto& row : s.ranks) row = reduce_gradients(row, s.microbatches, wait);
  return s;
}

}  // namespace cleave::detail
