// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "cleave/core/random.hpp"

namespace cleave::testing {

/// The library's random numbers, equal with every compiler, with helpers for tests. If the environment
/// variable CLEAVE_SEED is a number, all tests run other cases. `./dev check` uses several seeds.
class rng : public splitmix {
 public:
  explicit rng(std::uint64_t seed) : splitmix(seed + 1'000'003 * shift()) {}
  /// Returns a generator that ignores the environment, for recorded results.
  static rng recorded(std::uint64_t seed) { return rng(seed - 1'000'003 * shift()); }

  bool one_in(std::size_t times) { return below(times) == 0; }
  /// Returns a number in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  static std::uint64_t shift() {
    static char const* const text = std::getenv("CLEAVE_SEED");
    return text ? std::strtoull(text, nullptr, 10) : 0;
  }
};

}  // namespace cleave::testing
