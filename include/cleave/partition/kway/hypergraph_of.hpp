// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2 {

/// Returns a computation as a hypergraph. Each value that a node makes becomes a net of this node and the
/// nodes that read the value. The net weighs the bytes of the value, or 1 if the graph has no sizes.
/// `connectivity` is then the number of bytes that the parts send to each other.
/// \throws index_overflow if `Index` cannot number the pins
template <std::unsigned_integral Index>
hypergraph<Index, double> hypergraph_of(basic_snapshot_arrays<Index> const& s) {
  hypergraph<Index, double> h;
  h.nodes = s.nodes();
  h.node_weight = s.weight;
  for (std::size_t v = 0; v < s.from.size(); ++v) {
    if (s.from[v] != source::node) continue;
    h.pins.push_back(s.producer[v]);
    for (auto const n : s.users[v]) h.pins.push_back(n);
    h.offsets.push_back(narrow<Index>(h.pins.size()));
    h.net_weight.push_back(s.bytes.empty() ? 1 : static_cast<double>(s.bytes[v]));
  }
  return h;
}

/// Reads a user's own computation as a hypergraph.
/// \throws the errors of `snapshot_of`
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
hypergraph<Index, double> hypergraph_of(Graph const& g) {
  return hypergraph_of(snapshot_of<Index>(g));
}

}  // namespace cleave
