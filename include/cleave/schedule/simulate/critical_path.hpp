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

namespace cleave {

/// An action of a critical path.
struct critical_step {
  rank_id rank;
  std::size_t position = 0;  ///< in the list of the rank
  action what;
  time_span when;

  bool operator==(critical_step const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// The first action that ends last; `no_action` where there is none.
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

namespace cleave {

/// Why a schedule takes as long as it does: actions from the beginning to the one that ends last, each of
/// which waited for the one before it. The time between two of them is that of a message. A compound of which
/// all parts begin together is one action. Precondition: `t` are times of `s`. O(actions).
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
