// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/text/schedule_csv.hpp"

namespace cleave::inline v0_2 {

/// Returns the lists as a schedule of a chain of stages, without any check. `schedule_faults` reports its
/// faults.
///
/// A stage is placed on the rank of its first action, or on rank s mod ranks if it has no action. Counts of 0
/// are taken from the lists. If the number of stages is taken from the lists, stage numbers that are not
/// below the number of actions are ignored. O(actions + stages).
inline schedule listed_schedule(std::vector<std::vector<action>> rows, row_counts const& counts = {}) {
  std::size_t actions = 0;
  for (auto const& row : rows) actions += row.size();
  std::uint32_t stages = counts.stages, microbatches = counts.microbatches;
  for (auto const& row : rows)
    each_action(row, [&](action const& a) {
      if (counts.stages == 0 && index(a.stage) < actions) stages = (std::max)(stages, index(a.stage) + 1);
      if (counts.microbatches == 0 && a.microbatch != no_microbatch)
        microbatches = (std::max)(microbatches, index(a.microbatch) + 1);
    });
  auto const ranks = counts.ranks != 0 ? counts.ranks : static_cast<std::uint32_t>(rows.size());
  std::vector<rank_id> rank_of(stages);
  std::vector<char> known(stages);
  for (std::uint32_t s = 0; s < stages; ++s) rank_of[s] = rank_id{ranks == 0 ? 0 : s % ranks};
  for (std::uint32_t r = 0; r < rows.size(); ++r)
    each_action(rows[r], [&](action const& a) {
      if (index(a.stage) < stages && !std::exchange(known[index(a.stage)], true))
        rank_of[index(a.stage)] = rank_id{r};
    });
  return {{ranks, std::move(rank_of), chain_edges(stages)}, microbatches, std::move(rows)};
}
}  // namespace cleave
