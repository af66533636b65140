// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a graph has more nodes or directed edges than 32 bits can number.
class separator_size_error : public error {
 public:
  using error::error;
};

/// An undirected graph in CSR form without self-loops and parallel edges, with integer node weights. An edge
/// counts the edges of the original graph that were contracted to it.
struct plain_graph {
  std::vector<std::uint32_t> offsets{0};
  std::vector<std::uint32_t> targets;
  std::vector<std::uint32_t> count;  ///< of each directed edge; empty: all 1
  std::vector<std::int64_t> weight;  ///< of each node

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(offsets.size() - 1); }
  std::uint32_t degree(std::uint32_t n) const { return offsets[n + 1] - offsets[n]; }
  std::uint32_t edge_count(std::uint32_t e) const { return count.empty() ? 1 : count[e]; }
  std::int64_t total() const { return std::accumulate(weight.begin(), weight.end(), std::int64_t{0}); }
};

/// Lists the neighbours of each node once, without the node itself. Node weights are left empty. O(n + m).
/// \throws separator_size_error if nodes or directed edges exceed 32 bits.
/// \pre `find_adjacency_fault` returns no fault.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
plain_graph without_parallel_edges(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  constexpr std::uint32_t most = 0xfffffffe;
  if (g.nodes() > most || g.directed_edges() > most)
    throw separator_size_error("vertex separator: " + std::to_string(g.nodes()) + " nodes with " +
                               std::to_string(g.directed_edges()) +
                               " directed edges are too many: at most 4294967294 of each are supported");
  plain_graph plain;
  auto const nodes = static_cast<std::uint32_t>(g.nodes());
  plain.offsets.reserve(std::size_t{nodes} + 1);
  plain.targets.reserve(g.directed_edges());
  std::vector<std::uint32_t> seen_by(nodes, 0xffffffff);
  for (std::uint32_t n = 0; n < nodes; ++n) {
    seen_by[n] = n;
    for (auto const target : g.neighbours(n)) {
      auto const other = static_cast<std::uint32_t>(target);
      if (std::exchange(seen_by[other], n) != n) plain.targets.push_back(other);
    }
    plain.offsets.push_back(static_cast<std::uint32_t>(plain.targets.size()));
  }
  return plain;
}

/// Returns the node weights as integers. Floating-point weights are rounded to a unit of a power of two.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::vector<std::int64_t> integer_node_weights(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  std::vector<std::int64_t> weight(g.nodes(), 1);
  if (g.node_weight.empty()) return weight;
  auto const unit = exact_unit(g.node_weight);
  for (std::size_t n = 0; n < weight.size(); ++n) weight[n] = in_unit(g.node_weight[n], unit);
  return weight;
}

/// Returns the graph induced by `nodes`. `number` is scratch space that calls share; it begins empty.
inline plain_graph induced(plain_graph const& g, std::vector<std::uint32_t> const& nodes,
                           std::vector<std::uint32_t>& number) {
  constexpr std::uint32_t outside = 0xffffffff;
  if (number.size() < g.nodes()) number.resize(g.nodes(), outside);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) number[nodes[i]] = i;
  plain_graph part;
  std::size_t room = 0;
  for (auto const n : nodes) room += g.degree(n);
  part.offsets.reserve(nodes.size() + 1);
  part.weight.reserve(nodes.size());
  part.targets.reserve(room);
  if (!g.count.empty()) part.count.reserve(room);
  for (auto const n : nodes) {
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
      auto const other = number[g.targets[e]];
      if (other == outside) continue;
      part.targets.push_back(other);
      if (!g.count.empty()) part.count.push_back(g.count[e]);
    }
    part.offsets.push_back(static_cast<std::uint32_t>(part.targets.size()));
    part.weight.push_back(g.weight[n]);
  }
  for (auto const n : nodes) number[n] = outside;
  return part;
}

}  // namespace cleave::detail
