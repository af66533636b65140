// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"

namespace cleave {

/// What a stage was doing.
enum class activity : std::uint8_t {
  receive,  ///< waiting for its inputs
  forward,  ///< computing
  send,     ///< waiting for room where its results go
};

/// One measured bar of a timeline: nanoseconds since the run began, begin <= end.
struct interval {
  stage_id stage;
  microbatch_id microbatch;
  activity what;
  std::int64_t begin, end;

  bool operator==(interval const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// How long a stage computed and waited, in nanoseconds.
struct stage_time {
  std::int64_t receive = 0, forward = 0, send = 0;

  bool operator==(stage_time const&) const = default;
};

/// The sums of a timeline, by stage. Intervals of stages beyond `stages` are left out. O(intervals).
inline std::vector<stage_time> stage_times(std::span<interval const> timeline, std::size_t stages) {
  std::vector<stage_time> times(stages);
  for (auto const& bar : timeline) {
    if (index(bar.stage) >= stages) continue;
    auto& t = times[index(bar.stage)];
    auto& sum = bar.what == activity::receive   ? t.receive
                : bar.what == activity::forward ? t.forward
                                                : t.send;
    sum += bar.end - bar.begin;
  }
  return times;
}

/// The last moment of a timeline, in nanoseconds since the run began.
inline std::int64_t timeline_end(std::span<interval const> timeline) {
  std::int64_t end = 0;
  for (auto const& bar : timeline) end = (std::max)(end, bar.end);
  return end;
}

/// The share of all stages' time until the end in which they did not compute. O(intervals).
inline double idle_fraction(std::span<interval const> timeline, std::size_t stages) {
  double busy = 0;
  for (auto const& t : stage_times(timeline, stages)) busy += static_cast<double>(t.forward);
  double const all = static_cast<double>(timeline_end(timeline)) * static_cast<double>(stages);
  return all > 0 ? 1 - busy / all : 0;
}
}  // namespace cleave::detail
