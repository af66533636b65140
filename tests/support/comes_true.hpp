// SPDX-License-Identifier: MIT
#pragma once
#include <atomic>
#include <chrono>
#include <concepts>
#include <thread>

namespace cleave::testing {

/// Polls `f()` until it is true, as a program does that issues work. Gives up after a while, so that a broken
/// promise fails a test instead of hanging it. Returns the last result of `f()`.
template <std::predicate F>
bool comes_true(F f) {
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!f()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return true;
}

inline bool comes_true(std::atomic<bool> const& flag) {
  return comes_true([&] { return flag.load(); });
}

}  // namespace cleave::testing
