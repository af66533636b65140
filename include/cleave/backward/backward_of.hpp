// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"

namespace cleave {

/// The backward pass that a reverse-mode autograd would record for `g`: node n runs node n of `g` backward,
/// then comes a leaf for each input and each state value, in their order. The inputs of the stage are the
/// inputs of `g`, its parameters the state. `needs_gradient`, of a value, empty where all do, says which
/// inputs and which state; a node needs none whose operands need none, and nor do constants. What arrives at
/// a node has the bytes of its results; the gradient of an operand costs what the node weighs, as in products
/// of matrices. Operands count once for each time they are read. O(V + E).
///
/// \throws index_overflow where nodes, inputs and state together are too many
template <std::unsigned_integral Index>
basic_backward_graph<Index> backward_of(basic_dense<Index> const& g,
                                        std::vector<char> const& needs_gradient = {}) {
  basic_backward_graph<Index> b;
  std::vector<gradient_edge<Index>> made_by(g.values());  // of a value: where its gradient goes
  std::vector<Index> leaves;                              // the values that are one
  auto const add_leaves = [&](std::vector<Index> const& values, std::vector<Index>& list) {
    for (Index const v : values) {
      if (!needs_gradient.empty() && !needs_gradient[v]) continue;
      made_by[v] = {narrow<Index>(g.nodes() + leaves.size()), 0};
      list.push_back(made_by[v].to);
      leaves.push_back(v);
    }
  };
  add_leaves(g.inputs, b.inputs);
  add_leaves(g.state, b.parameters);

  auto const bytes = [&](Index v) { return g.bytes.empty() ? std::size_t{0} : g.bytes[v]; };
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    bool needed = false;
    for (Index const v : g.operands[n]) {
      b.next.add(made_by[v]);
      needed |= made_by[v].to != none<Index>;
      if (!g.weight.empty()) b.cost.push_back(g.weight[n]);
    }
    b.next.close();
    std::size_t arrives = 0;
    std::uint32_t slot = 0;
    for (Index const v : g.results[n]) {
      if (needed) made_by[v] = {static_cast<Index>(n), slot++};
      arrives += bytes(v);
      if (arrives < bytes(v)) arrives = static_cast<std::size_t>(-1);  // which is too much
    }
    if (!g.bytes.empty()) b.bytes.push_back(arrives);
    if (g.name.rows() == g.nodes()) {
      for (char const c : g.name[n]) b.name.add(c);
      b.name.close();
    }
  }
  for (Index const v : leaves) {
    b.next.close();
    if (!g.bytes.empty()) b.bytes.push_back(bytes(v));
    if (g.name.rows() == g.nodes() && g.nodes() > 0) b.name.close();
  }
  for (Index const v : g.outputs)
    if (made_by[v].to != none<Index>) b.outputs.push_back(made_by[v].to);
  return b;
}
}  // namespace cleave
