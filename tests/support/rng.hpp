// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>

#include "cleave/core/random.hpp"

namespace cleave::testing {

/// The library's random numbers, the same with every compiler, and what tests ask of them besides.
class rng : public splitmix {
 public:
  using splitmix::splitmix;

  bool one_in(std::size_t times) { return below(times) == 0; }
  /// In [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }
};

}  // namespace cleave::testing
