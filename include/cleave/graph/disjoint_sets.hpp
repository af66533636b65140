// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// A union-find structure, in which the smallest member represents its set. Tarjan, JACM 22(2), 1975, with
/// path halving.
template <std::unsigned_integral Index>
class disjoint_sets {
 public:
  explicit disjoint_sets(std::size_t count) : up_(count) {
    for (std::size_t i = 0; i < count; ++i) up_[i] = static_cast<Index>(i);
  }
  /// Returns the representative of the set of `i`.
  Index operator[](std::size_t i) {
    while (up_[i] != i) i = up_[i] = up_[up_[i]];
    return static_cast<Index>(i);
  }
  /// Merges the sets of `a` and `b`.
  void join(std::size_t a, std::size_t b) {
    Index const one = (*this)[a], other = (*this)[b];
    up_[(std::max)(one, other)] = (std::min)(one, other);
  }

 private:
  std::vector<Index> up_;
};
}  // namespace cleave
