// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// A set of numbers below a bound that gives up its smallest: 64 bits a word, and above each 64 words one
/// that tells which of them are not empty. O(log bound / 6) an operation.
class rank_set {
 public:
  rank_set() : rank_set(1) {}
  explicit rank_set(std::size_t bound) {
    do levels_.emplace_back(bound = bound / 64 + (bound % 64 != 0 || bound == 0));
    while (bound > 1);
  }

  bool empty() const { return levels_.back()[0] == 0; }
  void insert(std::size_t x) {
    for (auto& level : levels_) {
      level[x / 64] |= std::uint64_t{1} << x % 64;
      x /= 64;
    }
  }
  /// Precondition: not empty.
  std::size_t take_least() {
    std::size_t least = 0;
    for (std::size_t i = levels_.size(); i-- > 0;)
      least = 64 * least + static_cast<std::size_t>(std::countr_zero(levels_[i][least]));
    auto x = least;
    for (auto& level : levels_) {
      level[x / 64] &= ~(std::uint64_t{1} << x % 64);
      if (level[x / 64] != 0) break;
      x /= 64;
    }
    return least;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace cleave::detail
