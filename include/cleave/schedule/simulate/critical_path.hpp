// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_times.hpp"

namespace cleave::inline v0_2 {

/// An action on a critical path.
struct critical_step {
  rank_id rank;
  std::size_t position = 0;  ///< index in the list of the rank
  action what;
  time_span when;

  bool operator==(critical_step const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the first of the actions that end last, or `no_action`.
inline action_place last_action(schedule const& s, schedule_times const& t) {
  action_place last = no_action;
  double end = -1;
  for (std::uint32_t r = 0; r < s.ranks.size(); ++r)
    for (std::uint32_t i = 0; i < s.ranks[r].size(); ++i)
      if (t.spans[r][i].end > end && s.ranks[r][i].kind != action_kind::idle) {
        last = {rank_id{r}, i};
        end = t.spans[r][i].end;
      }
  return last;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a critical path: the actions that determine the makespan, from the first action to the one that
/// ends last.
///
/// Each action waited for the one before it. The time between two of them is that of a message. A compound
/// whose parts all begin together counts as one action. Precondition: `t` are times of `s`. O(actions).
inline std::vector<critical_step> critical_path(schedule const& s, schedule_times const& t) {
  expects(t.spans.size() == s.ranks.size() && t.causes.size() == s.ranks.size(), "times of this schedule");
  std::vector<critical_step> path;
  for (auto at = detail::last_action(s, t); at != detail::no_action;
       at = t.causes[index(at.rank)][at.position]) {
    auto const r = index(at.rank);
    path.push_back({at.rank, at.position, s.ranks[r][at.position], t.spans[r][at.position]});
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace cleave
