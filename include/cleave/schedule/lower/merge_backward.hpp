// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// Returns a list in which each I that is directly followed by the W of the same stage and microbatch becomes
/// one B. Idle steps are dropped and do not separate the two. Parts of compounds are unchanged. O(actions).
inline std::vector<action> merge_backward(std::span<action const> row) {
  std::vector<action> merged;
  merged.reserve(row.size());
  bool may_merge = false;  // true if the last action is an I outside of compounds
  each_cell(row, [&](action const& head, std::span<action const> parts) {
    using enum action_kind;
    if (head.kind == idle) return;
    if (may_merge && head.kind == weight_gradient && head.stage == merged.back().stage &&
        head.microbatch == merged.back().microbatch) {
      merged.back().kind = backward;
      may_merge = false;
      return;
    }
    merged.push_back(head);
    merged.insert(merged.end(), parts.begin(), parts.end());
    may_merge = head.kind == input_gradient && parts.empty();
  });
  return merged;
}

/// Merges backward passes on every rank. O(actions).
inline schedule merge_backward(schedule s) {
  for (auto& row : s.ranks) row = merge_backward(row);
  return s;
}

}  // namespace cleave
