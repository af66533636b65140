// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <optional>
#include <thread>

#include "cleave/run/model/concepts.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the time point `limit` from now, or the end of time if there is no limit.
inline std::chrono::steady_clock::time_point deadline_after(std::optional<std::chrono::milliseconds> limit) {
  using clock = std::chrono::steady_clock;
  auto const now = clock::now(), never = (clock::time_point::max)();
  return limit && *limit < std::chrono::duration_cast<std::chrono::milliseconds>(never - now) ? now + *limit
                                                                                              : never;
}

/// Blocks the calling thread until `e` has happened or `until` has passed. Returns true if `e` has happened.
/// Yields to other threads, which may be what `e` depends on. Calls `check()`, which may throw, between two
/// polls.
template <device D, class Check>
bool wait_on_host(D& d, typename D::event const& e, std::chrono::steady_clock::time_point until,
                  Check check) {
  constexpr int yields = 1000;  // most waits end within these yields; longer waits sleep
  for (int turn = 0; !d.query(e);) {
    check();
    if (std::chrono::steady_clock::now() >= until) return d.query(e);
    if (turn < yields)
      std::this_thread::yield(), ++turn;
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

}  // namespace cleave::detail
