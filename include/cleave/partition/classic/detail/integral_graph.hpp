// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2::detail {

/// An undirected graph with integer weights, the working copy of the classic methods. Each edge is stored at
/// both ends, and there are no self-loops. The sums of all weights fit in 64 bits.
struct integral_graph {
  std::vector<std::uint32_t> first{0}, head;
  std::vector<std::int64_t> node_weight, edge_weight;

  std::size_t nodes() const { return first.size() - 1; }
  /// Calls `f(neighbour, edge_weight)` for each edge of `n`.
  template <class F>
  void each_neighbour(std::uint32_t n, F f) const {
    for (auto arc = first[n]; arc < first[n + std::size_t{1}]; ++arc) f(head[arc], edge_weight[arc]);
  }
  void add_arc(std::uint32_t to, std::int64_t weight) {
    head.push_back(to);
    edge_weight.push_back(weight);
  }
  void close(std::int64_t weight) {  ///< ends the row of a node of this weight
    first.push_back(narrow<std::uint32_t>(head.size()));
    node_weight.push_back(weight);
  }
  std::int64_t total() const {
    std::int64_t sum = 0;
    for (auto const w : node_weight) sum += w;
    return sum;
  }
};

/// Returns a copy of `g` without self-loops, with floating-point weights converted to fixed point
/// (`exact_unit`). O(n + m).
/// \throws adjacency_error; index_overflow if there are 2^32 - 1 targets or more.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
integral_graph integral_graph_of(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  check_adjacency(g);
  auto const node_unit = exact_unit(g.node_weight);
  auto const edge_unit = exact_unit(g.edge_weight);
  integral_graph copy;
  for (std::size_t n = 0, arc = 0; n < g.nodes(); ++n) {
    for (auto const to : g.neighbours(n)) {
      if (static_cast<std::size_t>(to) != n)
        copy.add_arc(narrow<std::uint32_t>(static_cast<std::size_t>(to)),
                     in_unit(g.weight_of_edge(arc), edge_unit));
      ++arc;
    }
    copy.close(in_unit(g.weight(n), node_unit));
  }
  return copy;
}

/// Returns the subgraph induced by `nodes`, renumbered by their position in `nodes`. `number` is a scratch
/// array with an entry per node of `g`. O(nodes + their edges).
inline integral_graph subgraph(integral_graph const& g, std::span<std::uint32_t const> nodes,
                               std::vector<std::uint32_t>& number) {
  for (std::uint32_t i = 0; i < nodes.size(); ++i) number[nodes[i]] = i;
  auto const is_inside = [&](std::uint32_t n) { return number[n] < nodes.size() && nodes[number[n]] == n; };
  integral_graph inside;
  for (auto const n : nodes) {
    g.each_neighbour(n, [&](std::uint32_t to, std::int64_t weight) {
      if (is_inside(to)) inside.add_arc(number[to], weight);
    });
    inside.close(g.node_weight[n]);
  }
  return inside;
}

/// Returns the total weight of the edges between different parts, sides or clusters. O(m).
template <class Part>
std::int64_t cut_weight(integral_graph const& g, std::vector<Part> const& of) {
  std::int64_t cut = 0;
  for (std::uint32_t n = 0; n < g.nodes(); ++n)
    g.each_neighbour(n, [&](std::uint32_t to, std::int64_t w) { cut += to > n && of[to] != of[n] ? w : 0; });
  return cut;
}

/// Checks that `start` is a partition of a graph of this many nodes. \throws error if it is not.
inline void check_start(partition const& start, std::size_t nodes) {
  if (start.of.size() != nodes)
    throw error("the partition has " + std::to_string(start.of.size()) +
                " entries, but the number of nodes is " + std::to_string(nodes));
  for (std::size_t n = 0; n < nodes; ++n)
    if (index(start.of[n]) >= start.parts)
      throw error("node #" + std::to_string(n) + " is not in any of the " + std::to_string(start.parts) +
                  " parts");
}

}  // namespace cleave::detail
