// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/adjacency_weights.hpp"
#include "cleave/partition/kway/level_graph.hpp"

namespace cleave::detail {

/// More nodes or arcs than 32 bits can number.
class kway_size_error : public error {
 public:
  using error::error;
};

/// A user's graph as the engine reads it: 32-bit numbers, no loops, integral weights. The arrays are the
/// user's where they already are so.
struct flat_graph {
  std::uint32_t nodes = 0;
  std::uint32_t const* first = nullptr;
  std::uint32_t const* head = nullptr;
  bool weighted = false;                ///< otherwise all weights are 1
  raw_array<std::int64_t> node_weight;  ///< if weighted
  raw_array<std::int64_t> arc_weight;   ///< if weighted
  raw_array<std::uint32_t> own_first, own_head;
  std::int64_t node_total = 0, arc_total = 0;
  fixed_point node_unit, arc_unit;  ///< of weights that were floating

  std::uint32_t arcs() const { return first ? first[nodes] : 0; }
};

/// How many arcs lead from a node to itself.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t count_loops(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  std::size_t loops = 0;
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (auto const to : g.neighbours(n)) loops += static_cast<std::size_t>(to) == n;
  return loops;
}

/// `loops` is how many arcs lead from a node to itself. Precondition: `find_adjacency_fault` finds none.
/// \throws kway_size_error. O(n + m), O(1) where the user's arrays can be read as they are.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::size_t loops) {
  if (g.nodes() >= free_node || g.arcs() >= free_node)
    throw kway_size_error("k-way partition: " + std::to_string(g.nodes()) + " nodes with " +
                          std::to_string(g.arcs()) + " arcs are more than 4294967294");
  flat_graph f;
  f.nodes = static_cast<std::uint32_t>(g.nodes());
  f.weighted = !g.node_weight.empty() || !g.edge_weight.empty();
  f.node_total = f.nodes;
  f.arc_total = static_cast<std::int64_t>(g.arcs() - loops);

  if (loops == 0 && f.nodes > 0) {
    // The same bytes: no index is negative. Types that differ in sign only may alias.
    if constexpr (sizeof(Offset) == sizeof(std::uint32_t))
      f.first = reinterpret_cast<std::uint32_t const*>(g.offsets.data());
    if constexpr (sizeof(Index) == sizeof(std::uint32_t))
      f.head = reinterpret_cast<std::uint32_t const*>(g.targets.data());
  }
  bool const rows_copied = f.first == nullptr, heads_copied = f.head == nullptr;
  if (rows_copied) f.own_first = raw_array<std::uint32_t>(std::size_t{f.nodes} + 1);
  if (heads_copied) f.own_head = raw_array<std::uint32_t>(g.arcs() - loops + 1);
  f.node_unit = exact_unit(g.node_weight);
  f.arc_unit = exact_unit(g.edge_weight);
  if (f.weighted) {
    f.node_weight = raw_array<std::int64_t>(f.nodes);
    f.arc_weight = raw_array<std::int64_t>(g.arcs() - loops);
    f.node_total = f.arc_total = 0;
  }
  if (!rows_copied && !heads_copied && !f.weighted) return f;
  std::uint32_t to = 0;
  for (std::uint32_t n = 0; n < f.nodes; ++n) {
    if (rows_copied) f.own_first[n] = to;
    if (!heads_copied && !f.weighted) {
      to = static_cast<std::uint32_t>(g.offsets[n + 1]);
      continue;
    }
    if (f.weighted) f.node_total += f.node_weight[n] = in_unit(g.weight(n), f.node_unit);
    for (auto arc = static_cast<std::size_t>(g.offsets[n]); arc < static_cast<std::size_t>(g.offsets[n + 1]);
         ++arc) {
      auto const other = static_cast<std::uint32_t>(g.targets[arc]);
      if (other == n) continue;
      if (heads_copied) f.own_head[to] = other;
      if (f.weighted) f.arc_total += f.arc_weight[to] = in_unit(g.weight_of_arc(arc), f.arc_unit);
      ++to;
    }
  }
  if (rows_copied) {
    f.own_first[f.nodes] = to;
    f.first = f.own_first.data();
  }
  if (heads_copied) f.head = f.own_head.data();
  return f;
}

template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
flat_graph make_flat(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  return make_flat(g, count_loops(g));
}

}  // namespace cleave::detail
