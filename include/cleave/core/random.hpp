// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// A generator of random numbers that are the same with every compiler and standard library. Steele, Lea,
/// Flood, OOPSLA 2014 (splitmix64).
class splitmix {
 public:
  explicit splitmix(std::uint64_t seed) : state_(seed) {}

  /// Returns the next 64 random bits.
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Returns a number below `bound`, which must not be 0. The relative bias is less than bound / 2^64.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

  /// Returns a number from 0 to below 1, with 53 random bits.
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Shuffles a list (Fisher and Yates).
  template <class T>
  void shuffle(std::vector<T>& list) {
    for (std::size_t i = list.size(); i > 1; --i) std::swap(list[i - 1], list[below(i)]);
  }

 private:
  std::uint64_t state_;
};
}  // namespace cleave
