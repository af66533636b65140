// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave::inline v0_2 {

/// The time during which a rank is at one action of its list.
struct time_span {
  double begin = 0, end = 0;

  bool operator==(time_span const&) const = default;
};

/// The place of an action in a schedule: its rank and its index in the list.
struct action_place {
  rank_id rank{0xffffffff};
  std::uint32_t position = 0;

  bool operator==(action_place const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

inline constexpr action_place no_action{};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A schedule in time, in the unit of the costs.
struct schedule_times {
  /// The time at which the last rank ends.
  double makespan = 0;
  /// By rank: the time spent computing, the start of its first pass, and the end of all its work.
  std::vector<double> busy, first, last;
  /// `spans[r][i]` is the time during which rank r is at action i of its list. UNSHARD, REDUCE_GRAD, OFFLOAD
  /// and RELOAD run concurrently with the actions after them; their spans last until they complete.
  std::vector<std::vector<time_span>> spans;
  /// `causes[r][i]` is the action for which action i of rank r waited last: one of its own rank, or one at
  /// the other end of a message. It is `no_action` if the action began at once.
  std::vector<std::vector<action_place>> causes;
  std::vector<kept_passes> most_kept;  ///< by rank

  bool operator==(schedule_times const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the idle time of rank `r` between the start of its first pass and its end.
inline double span_bubble(schedule_times const& t, std::size_t r) {
  return t.last[r] - t.first[r] - t.busy[r];
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the share of the total time of all ranks, from 0 to the makespan, that is not spent computing.
/// O(ranks).
inline double bubble_rate(schedule_times const& t) {
  double busy = 0;
  for (double const b : t.busy) busy += b;
  double const all = static_cast<double>(t.busy.size()) * t.makespan;
  return all > 0 ? 1 - busy / all : 0;
}

}  // namespace cleave
