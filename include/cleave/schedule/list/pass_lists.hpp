// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/list/placed_step.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// A pass of a stage; its microbatch follows from its position in the list.
struct listed_pass {
  std::uint32_t stage = 0;
  action_kind kind = action_kind::forward;

  bool operator==(listed_pass const&) const = default;
};

/// The passes that each rank computes, in order, without microbatches. In each stage, forward passes take
/// microbatches in order. So do gradients and pending weight gradients.
///
/// This loses no generality, because microbatches are alike. If a schedule uses another order, renumber: the
/// k-th forward pass of each stage becomes that of microbatch k, and gradients likewise. The k-th pass cannot
/// begin before k of its predecessors have ended. So all passes keep their times, and each rank keeps as many
/// bytes as before.
using pass_lists = std::vector<std::vector<listed_pass>>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the passes of a schedule; the parts of a compound become consecutive passes. No rank ends later by
/// it.
inline pass_lists pass_lists_of(schedule const& s) {
  pass_lists lists(s.ranks.size());
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    each_action(s.ranks[r], [&](action const& a) {
      if (is_compute(a.kind)) lists[r].push_back({index(a.stage), a.kind});
    });
  return lists;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the schedule of these passes, with their microbatches. O(passes).
inline schedule schedule_of(stage_placement const& place, std::uint32_t microbatches,
                            pass_lists const& lists) {
  schedule s{place, microbatches, std::vector<std::vector<action>>(lists.size())};
  std::vector<std::uint32_t> forward(place.stages()), gradient(forward), weight(forward);
  std::vector<std::vector<std::uint32_t>> put_off(place.stages());  // microbatches whose W is still to come
  for (std::size_t r = 0; r < lists.size(); ++r)
    for (auto const& p : lists[r]) {
      std::uint32_t microbatch = 0;
      if (p.kind == action_kind::forward) {
        microbatch = forward[p.stage]++;
      } else if (p.kind == action_kind::weight_gradient) {
        auto const& list = put_off[p.stage];
        microbatch = list[std::min<std::size_t>(weight[p.stage]++, list.size() - 1)];
      } else {
        microbatch = gradient[p.stage]++;
        if (p.kind == action_kind::input_gradient) put_off[p.stage].push_back(microbatch);
      }
      s.ranks[r].push_back({p.kind, 0, stage_id{p.stage}, microbatch_id{microbatch}, detail::no_stage});
    }
  return s;
}

/// Returns the most bytes that a list keeps for microbatches at a time. O(passes).
inline std::uint64_t most_kept(detail::placed_step const& step, std::vector<listed_pass> const& list) {
  std::int64_t now = 0, most = 0;
  for (auto const& p : list) {
    auto const& bytes = step.stages[p.stage].bytes;
    auto const saved = static_cast<std::int64_t>(bytes.saved);
    auto const saved_for_weights = static_cast<std::int64_t>(bytes.saved_for_weights);
    now += p.kind == action_kind::forward          ? saved
           : p.kind == action_kind::backward       ? -saved
           : p.kind == action_kind::input_gradient ? saved_for_weights - saved
                                                   : -saved_for_weights;
    most = (std::max)(most, now);
  }
  return static_cast<std::uint64_t>(most);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns true if each rank stays within its memory limit.
inline bool fits(placed_step const& step, pass_lists const& lists) {
  for (std::size_t r = 0; r < lists.size(); ++r)
    if (most_kept(step, lists[r]) > step.room(r) || step.resident[r] > step.memory_limit[r]) return false;
  return true;
}

}  // namespace cleave::detail
