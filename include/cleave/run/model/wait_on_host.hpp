// SPDX-License-Identifier: MIT
#pragma once
#include <chrono>
#include <optional>
#include <thread>

#include "cleave/run/model/concepts.hpp"

namespace cleave::detail {

/// When what begins now and may take so long has to have ended; no limit: never.
inline std::chrono::steady_clock::time_point deadline_after(std::optional<std::chrono::milliseconds> limit) {
  using clock = std::chrono::steady_clock;
  auto const now = clock::now(), never = (clock::time_point::max)();
  return limit && *limit < std::chrono::duration_cast<std::chrono::milliseconds>(never - now) ? now + *limit
                                                                                              : never;
}

/// Has the calling thread wait until `e` has happened; whether it has, by `until`. Lets other threads run:
/// they may be what it waits for. Between two looks it calls `check()`, which may throw.
template <device D, class Check>
bool wait_on_host(D& d, typename D::event const& e, std::chrono::steady_clock::time_point until,
                  Check check) {
  constexpr int yields = 1000;  // most waits are over before; in longer ones, others get the core
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
