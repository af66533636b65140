// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/simulate_options.hpp"

namespace cleave {

/// When a rank is at an action of its list.
struct time_span {
  double begin = 0, end = 0;

  bool operator==(time_span const&) const = default;
};

/// An action of a schedule, by the place in its list.
struct action_place {
  rank_id rank{0xffffffff};
  std::uint32_t position = 0;

  bool operator==(action_place const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

inline constexpr action_place no_action{};

}  // namespace cleave::detail

namespace cleave {

/// A schedule in time.
struct schedule_times {
  double makespan = 0;
  std::vector<double> busy, first, last;  ///< of a rank: computing; when it begins to, and when all is done
  /// Of each action, as the lists have them: when the rank is at it; of UNSHARD, REDUCE_GRAD, OFFLOAD and
  /// RELOAD, which go on beside what follows, until they are done.
  std::vector<std::vector<time_span>> spans;
  /// Of each action: for which one it waited last. Its rank's, or one at the other end of a message;
  /// `no_action` where it began at once.
  std::vector<std::vector<action_place>> causes;
  std::vector<kept_passes> most_kept;  ///< of a rank

  bool operator==(schedule_times const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// How long rank `r` idles between its first pass and its end.
inline double span_bubble(schedule_times const& t, std::size_t r) {
  return t.last[r] - t.first[r] - t.busy[r];
}

}  // namespace cleave::detail

namespace cleave {

/// Which share of the time of all ranks, from the beginning to the makespan, is not spent computing.
/// O(ranks).
inline double bubble_rate(schedule_times const& t) {
  double busy = 0;
  for (double const b : t.busy) busy += b;
  double const all = static_cast<double>(t.busy.size()) * t.makespan;
  return all > 0 ? 1 - busy / all : 0;
}

}  // namespace cleave
