// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/simulate/simulate.hpp"

namespace cleave::inline v0_2 {

/// Returns the schedule with an idle step for each unit of time in which a rank waits, as PyTorch spaces its
/// lists.
///
/// F, I and W take one unit and B takes two. A compound takes the sum of its parts, once all of them can
/// begin. Other actions take no time. Idle steps of the input are dropped. Ranks that end early idle until
/// the last action begins. O(actions + idle steps).
/// \throws as `simulate`, and schedule_count_error if the result has too many steps
inline schedule spaced_listing(schedule const& s) {
  auto const times = simulate(
      s, {.costs = {{.forward = 1, .backward = 2, .input_gradient = 1, .weight_gradient = 1, .recompute = 1}},
          .compounds = compound_time::in_turn});
  if (times.makespan * static_cast<double>(s.ranks.size()) > static_cast<double>(detail::most_actions))
    throw schedule_count_error("spaced listing: the schedule has too many steps to list", s.microbatches);
  // An action that takes no time but waits is placed at the end of its wait.
  auto const begin_of = [&](std::size_t r, std::size_t i) {
    auto const& t = times.spans[r][i];
    auto const& head = s.ranks[r][i];
    return static_cast<std::size_t>(is_compute(head.kind) || head.parts > 0 ? t.begin : t.end);
  };
  std::size_t last_begin = 0;
  for (std::size_t r = 0; r < s.ranks.size(); ++r)
    for (std::size_t i = 0; i < s.ranks[r].size(); ++i) last_begin = (std::max)(last_begin, begin_of(r, i));

  schedule spaced{s.place, s.microbatches, {}};
  for (std::size_t r = 0; r < s.ranks.size(); ++r) {
    auto& to = spaced.ranks.emplace_back();
    std::size_t position = 0, now = 0;
    each_cell(s.ranks[r], [&](action const& head, std::span<action const> parts) {
      auto const begin = begin_of(r, position);
      auto const end = static_cast<std::size_t>(times.spans[r][position].end);
      position += 1 + parts.size();
      if (head.kind == action_kind::idle) return;
      if (begin > now) to.resize(to.size() + (begin - now));
      to.push_back(head);
      to.insert(to.end(), parts.begin(), parts.end());
      now = (std::max)(now, end);
    });
    if (now <= last_begin) to.resize(to.size() + (last_begin + 1 - now));
  }
  return spaced;
}

}  // namespace cleave
