// SPDX-License-Identifier: MIT
#pragma once
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

}  // namespace cleave
