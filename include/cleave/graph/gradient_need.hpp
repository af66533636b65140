// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <vector>

#include "cleave/graph/dense.hpp"

namespace cleave::detail {

/// Of each value whether a gradient arrives at it when what depends on it is differentiated: of one that no
/// node makes if `starts(v)`, of a result of node n if `passes(n)` and it reads a value of which that holds.
/// Both are asked by position, in order. O(V + E).
template <std::unsigned_integral Index, class Starts, class Passes>
std::vector<char> gradient_need(basic_dense<Index> const& s, Starts starts, Passes passes) {
  std::vector<char> need(s.values());
  for (std::size_t v = 0; v < s.values(); ++v)
    if (s.producer[v] == none<Index>) need[v] = starts(v);
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    bool any = false;
    for (Index const v : s.operands[n]) any |= need[v] != 0;
    if (any && passes(n))
      for (Index const v : s.results[n]) need[v] = 1;
  }
  return need;
}

}  // namespace cleave::detail
