// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave {

/// What forward passes have made and backward passes have not used up.
struct kept_passes {
  std::uint64_t passes = 0;        ///< pairs of a stage and a microbatch, from F to B or W
  std::uint64_t microbatches = 0;  ///< that any of them is about

  bool operator==(kept_passes const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// The most of either that each rank keeps at once, a compound's parts one after the other; I lets nothing
/// go. What is about a microbatch that there is not counts for nothing. O(actions + ranks · microbatches).
inline std::vector<kept_passes> most_kept_passes(schedule const& s) {
  std::vector<kept_passes> most(s.ranks.size());
  std::vector<std::uint32_t> of_microbatch(s.microbatches);
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    kept_passes now;
    std::ranges::fill(of_microbatch, 0);
    each_action(s.ranks[r], [&](action const& a) {
      if (!is_compute(a.kind) || index(a.microbatch) >= s.microbatches) return;
      auto& kept = of_microbatch[index(a.microbatch)];
      if (a.kind == action_kind::forward) {
        ++now.passes;
        if (kept++ == 0) ++now.microbatches;
      } else if (a.kind != action_kind::input_gradient && kept > 0) {
        --now.passes;
        if (--kept == 0) --now.microbatches;
      }
      most[r].passes = (std::max)(most[r].passes, now.passes);
      most[r].microbatches = (std::max)(most[r].microbatches, now.microbatches);
    });
  }
  return most;
}

}  // namespace cleave::detail
