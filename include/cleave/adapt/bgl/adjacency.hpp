// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/adapt/bgl/property.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/neighbours.hpp"

namespace cleave::inline v0_2 {

/// Converts any Boost graph to an undirected graph in CSR arrays, for `partition_kway` and other functions on
/// undirected graphs. Nodes are numbered by their place in `vertices(g)`, and edges keep the order of
/// `edges(g)`. An edge from u to v and an edge from v to u are two edges. Self-loops are left out. Expected
/// O(V + E).
/// \param g the Boost graph, directed or undirected
/// \param edge_weight the property with the weights of edges (see `bgl_property`); if left out, all weigh 1
/// \param node_weight the property with the weights of vertices; if left out, all weigh 1
/// \throws index_overflow if `Index` is too narrow
template <std::unsigned_integral Index = std::uint32_t, class BoostGraph, class EdgeWeight = detail::unsaid,
          class NodeWeight = detail::unsaid>
auto bgl_adjacency(BoostGraph const& g, EdgeWeight const& edge_weight = {},
                   NodeWeight const& node_weight = {}) {
  using vertex = detail::bgl_vertex<BoostGraph>;
  using edge = typename boost::graph_traits<BoostGraph>::edge_descriptor;
  using node_number =
      detail::kept_weight<decltype(detail::bgl_property(g, node_weight, std::declval<vertex>()))>;
  using edge_number =
      detail::kept_weight<decltype(detail::bgl_property(g, edge_weight, std::declval<edge>()))>;
  detail::bgl_positions<BoostGraph, Index> const position(g);
  adjacency<Index, node_number, edge_number> made;
  std::vector<std::size_t> next(position.size() + 1);
  detail::each_bgl_edge(g, [&](vertex const& u, vertex const& v, edge const&) {
    if (u == v) return;
    ++next[position[u] + std::size_t{1}];
    ++next[position[v] + std::size_t{1}];
  });
  made.offsets.resize(next.size());
  for (std::size_t n = 1; n < next.size(); ++n) made.offsets[n] = narrow<Index>(next[n] += next[n - 1]);
  made.targets.resize(next.back());
  if constexpr (!std::same_as<EdgeWeight, detail::unsaid>) made.edge_weight.resize(next.back());
  detail::each_bgl_edge(g, [&](vertex const& u, vertex const& v, edge const& e) {
    if (u == v) return;
    auto const arc = [&](Index from, Index to) {
      if constexpr (!std::same_as<EdgeWeight, detail::unsaid>)
        made.edge_weight[next[from]] = static_cast<edge_number>(detail::bgl_property(g, edge_weight, e));
      made.targets[next[from]++] = to;
    };
    arc(position[u], position[v]);
    arc(position[v], position[u]);
  });
  if constexpr (!std::same_as<NodeWeight, detail::unsaid>)
    for (auto [v, end] = vertices(g); v != end; ++v)
      made.node_weight.push_back(static_cast<node_number>(detail::bgl_property(g, node_weight, *v)));
  return made;
}
}  // namespace cleave
