// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/step_index.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"

namespace cleave {

/// What each rank does, in which order, in one step of training or inference: plain data. It computes only,
/// as generators make it; or it has been lowered, and sends, receives and waits too. Every rank runs its own
/// list in order.
struct schedule {
  stage_placement place;
  std::uint32_t microbatches = 0;
  std::vector<std::vector<action>> ranks;  ///< the list of each rank; a compound is followed by its parts

  bool operator==(schedule const&) const = default;
};

/// How many actions there are: parts count, their compounds and idle steps do not. O(actions).
inline std::uint64_t count_actions(schedule const& s) {
  std::uint64_t count = 0;
  for (auto const& row : s.ranks) each_action(row, [&](action const&) { ++count; });
  return count;
}

}  // namespace cleave

namespace cleave::detail {

/// Returns the numbering of the passes and messages of a schedule.
inline step_index step_index_of(schedule const& s) {
  return {s.place.stages(), s.place.edges.size(), s.microbatches};
}

}  // namespace cleave::detail
