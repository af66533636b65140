// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"

namespace cleave::detail {

/// Calls `f` with each node that node `n` needs: what makes its operands, what makes the companions of the
/// operands for whose producer (`none` for those from outside the graph) `crosses` holds, and what it must
/// follow. Repeats included; replicable nodes are needed by nobody.
template <std::unsigned_integral Index, class Crosses, class F>
void each_needed_node(basic_dense<Index> const& g, std::size_t n, Crosses crosses, F f) {
  auto const need = [&](Index m) {
    if (m != none<Index> && !is_replicable(g, m)) f(m);
  };
  for (Index const v : g.operands[n]) {
    Index const m = g.producer[v];
    need(m);
    if (m != none<Index> && is_replicable(g, m)) continue;  // copied, so nothing comes along
    if (crosses(m))
      for (Index const c : g.companions[v]) need(g.producer[c]);
  }
  for (Index const m : g.after[n]) need(m);
}

/// Calls `f(m, n)` for each node `m` that node `n` needs wherever the parts may lie; neither is replicable.
/// O(V + E).
template <std::unsigned_integral Index, class F>
void each_need(basic_dense<Index> const& g, F f) {
  auto const may_cross = [](Index) { return true; };
  for (Index n = 0; n < g.nodes(); ++n)
    if (!is_replicable(g, n)) each_needed_node(g, n, may_cross, [&](Index m) { f(m, n); });
}

}  // namespace cleave::detail
