// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave {

/// Returns a computation as a hypergraph: the node that makes a value and the nodes that read it are a net.
/// With `connectivity` as objective, a partition then sends as few bytes as possible. A net weighs the bytes
/// of its value, or 1 if sizes are unknown. Values that no node makes are left out.
template <std::unsigned_integral Index>
hypergraph<std::uint32_t, double> hypergraph_of(basic_snapshot_arrays<Index> const& s) {
  hypergraph<std::uint32_t, double> h;
  h.nodes = s.nodes();
  h.node_weight = s.weight;
  for (std::size_t v = 0; v < s.from.size(); ++v) {
    if (s.from[v] != source::node) continue;
    h.pins.push_back(static_cast<std::uint32_t>(s.producer[v]));
    for (auto const n : s.users[v]) h.pins.push_back(static_cast<std::uint32_t>(n));
    h.offsets.push_back(static_cast<std::uint32_t>(h.pins.size()));
    h.net_weight.push_back(s.bytes.empty() ? 1 : static_cast<double>(s.bytes[v]));
  }
  return h;
}

/// Returns a user's own computation as a hypergraph.
/// \throws the errors of `snapshot_of`
template <dataflow_graph Graph>
hypergraph<std::uint32_t, double> hypergraph_of(Graph const& g) {
  return hypergraph_of(snapshot_of<std::uint32_t>(g));
}

}  // namespace cleave
