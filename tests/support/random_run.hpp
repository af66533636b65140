// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/forward/forward.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns intervals like those of a threaded run: each stage receives, computes and sends one microbatch
/// after another.
inline std::vector<interval> random_run(rng& random, std::uint32_t stages, std::uint32_t microbatches) {
  std::vector<interval> timeline;
  std::vector<std::int64_t> ready(microbatches);
  for (std::uint32_t s = 0; s < stages; ++s) {
    std::int64_t now = 0;
    for (std::uint32_t m = 0; m < microbatches; ++m) {
      auto const add = [&](activity what, std::int64_t until) {
        timeline.push_back({stage_id{s}, microbatch_id{m}, what, now, until});
        now = until;
      };
      add(activity::receive, std::max(now, ready[m]));
      add(activity::forward, now + 1 + static_cast<std::int64_t>(random.below(20'000'000)));
      add(activity::send, now + static_cast<std::int64_t>(random.below(3'000'000)));
      ready[m] = now;
    }
  }
  random.shuffle(timeline);
  return timeline;
}

}  // namespace cleave::testing
