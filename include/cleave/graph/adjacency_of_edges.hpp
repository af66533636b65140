// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/adjacency_fault.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave {

/// Edges in any order, each once, in either direction; those from a node to itself are of no account.
template <std::integral Index, weight_number Weight = std::int64_t>
struct edge_pairs {
  std::vector<Index> from, to;
  std::vector<Weight> weight;  ///< of an edge; empty: all weigh 1

  std::size_t size() const { return from.size(); }
  void add(Index a, Index b) {
    from.push_back(a);
    to.push_back(b);
  }
  void add(Index a, Index b, Weight w) {
    add(a, b);
    weight.push_back(w);
  }
};

/// What edges between the same two nodes become: one with the sum of their weights, or with the largest.
enum class repeated_edges : std::uint8_t { add_up, count_once };

/// The rows of each node's neighbours, ascending, each once. Edges without weights that add up give an edge
/// its number as weight if that is not 1 everywhere. O(nodes + edges).
/// \throws index_overflow if there are too many ends of edges to number, error if weights add up past 2^63.
template <std::integral Index, weight_number Weight>
adjacency<Index, Weight> adjacency_of_edges(std::size_t nodes, edge_pairs<Index, Weight> const& edges,
                                            repeated_edges repeated = repeated_edges::add_up) {
  constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)());
  if (nodes >= most || edges.size() > most / 2) throw detail::index_overflow();
  bool const weighted = !edges.weight.empty();
  expects(edges.to.size() == edges.size() && (!weighted || edges.weight.size() == edges.size()),
          "two ends of each edge, and a weight of each or of none");
  detail::weight_sum<Weight> total;
  for (Weight const w : edges.weight) total.add(w);
  if (total.overflows()) throw error("the weights of the edges add up past 2^63 - 1: take a larger unit");

  // By the node an arc leads to, then by where it begins: rows are then in order.
  std::vector<Index> first(nodes + 1, 0);
  auto const is_loop = [&](std::size_t e) { return edges.from[e] == edges.to[e]; };
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (is_loop(e)) continue;
    ++first[static_cast<std::size_t>(edges.from[e]) + 1];
    ++first[static_cast<std::size_t>(edges.to[e]) + 1];
  }
  for (std::size_t n = 0; n < nodes; ++n) first[n + 1] = static_cast<Index>(first[n + 1] + first[n]);
  auto const arcs = static_cast<std::size_t>(first[nodes]);
  std::vector<Index> tail(arcs);
  std::vector<Weight> weight_in(weighted ? arcs : 0);
  auto next = first;
  auto const place = [&](Index from, Index to, std::size_t e) {
    auto const at = static_cast<std::size_t>(next[static_cast<std::size_t>(to)]++);
    tail[at] = from;
    if (weighted) weight_in[at] = edges.weight[e];
  };
  for (std::size_t e = 0; e < edges.size(); ++e) {
    if (is_loop(e)) continue;
    place(edges.from[e], edges.to[e], e);
    place(edges.to[e], edges.from[e], e);
  }

  adjacency<Index, Weight> g;
  g.targets.resize(arcs);
  g.edge_weight.resize(weighted ? arcs : 0);
  next = first;
  for (std::size_t to = 0, arc = 0; to < nodes; ++to)
    for (; arc < static_cast<std::size_t>(first[to + 1]); ++arc) {
      auto const at = static_cast<std::size_t>(next[static_cast<std::size_t>(tail[arc])]++);
      g.targets[at] = static_cast<Index>(to);
      if (weighted) g.edge_weight[at] = weight_in[arc];
    }

  bool any_repeated = false;
  for (std::size_t n = 0; n < nodes; ++n)
    for (auto arc = static_cast<std::size_t>(first[n]) + 1; arc < static_cast<std::size_t>(first[n + 1]);
         ++arc)
      any_repeated |= g.targets[arc] == g.targets[arc - 1];
  if (!any_repeated) {
    g.offsets = std::move(first);
    return g;
  }
  if (!weighted && repeated == repeated_edges::add_up) g.edge_weight.assign(arcs, Weight{1});
  bool const sum = repeated == repeated_edges::add_up;
  std::size_t kept = 0;
  g.offsets.assign(nodes + 1, 0);
  for (std::size_t n = 0; n < nodes; ++n) {
    auto const begin = kept;
    for (auto arc = static_cast<std::size_t>(first[n]); arc < static_cast<std::size_t>(first[n + 1]); ++arc) {
      bool const again = kept > begin && g.targets[kept - 1] == g.targets[arc];
      if (!again) g.targets[kept++] = g.targets[arc];
      if (g.edge_weight.empty()) continue;
      auto& w = g.edge_weight[kept - 1];
      auto const here = g.edge_weight[arc];
      w = !again ? here : sum ? static_cast<Weight>(w + here) : (std::max)(w, here);
    }
    g.offsets[n + 1] = static_cast<Index>(kept);
  }
  g.targets.resize(kept);
  if (!g.edge_weight.empty()) g.edge_weight.resize(kept);
  return g;
}

/// Each edge once, from the larger number to the smaller; edges of two nodes are added up.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
edge_pairs<Index, EdgeWeight> edges_of(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  edge_pairs<Index, EdgeWeight> listed, merged;
  auto const collect = [](auto view, edge_pairs<Index, EdgeWeight>& to) {
    for (std::size_t n = 0, arc = 0; n < view.nodes(); ++n)
      for (; arc < static_cast<std::size_t>(view.offsets[n + 1]); ++arc) {
        if (static_cast<std::size_t>(view.targets[arc]) >= n) continue;
        to.add(static_cast<Index>(n), view.targets[arc]);
        if (!view.edge_weight.empty()) to.weight.push_back(view.edge_weight[arc]);
      }
  };
  collect(g, listed);
  auto const rows = adjacency_of_edges(g.nodes(), listed);
  collect(rows.view(), merged);
  return merged;
}
}  // namespace cleave
