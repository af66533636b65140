// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave::inline v0_2 {

/// The actions of each rank in one step of training or inference, in order, as plain data. A schedule from a
/// generator contains only passes. A lowered schedule also contains sends, receives and waits. Every rank
/// runs its own list in order.
struct schedule {
  stage_placement place;
  std::uint32_t microbatches = 0;
  std::vector<std::vector<action>> ranks;  ///< one list per rank; a compound is followed by its parts

  bool operator==(schedule const&) const = default;
};

/// Returns the number of actions. Parts count; the heads of compounds and idle steps do not. O(actions).
inline std::uint64_t count_actions(schedule const& s) {
  std::uint64_t count = 0;
  for (auto const& row : s.ranks) each_action(row, [&](action const&) { ++count; });
  return count;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the numbering of the passes and messages of a schedule.
inline step_index step_index_of(schedule const& s) {
  return {s.place.stages(), s.place.edges.size(), s.microbatches};
}

}  // namespace cleave::detail
