// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave {

template <class T>
concept weight_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// An undirected graph in the arrays of whoever has them: compressed rows of neighbours, each edge at both of
/// its ends, rows in any order. An edge from a node to itself is of no account; edges between the same two
/// nodes count as one with the sum of their weights. No weight is negative.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct adjacency_view {
  std::span<Index const> first;             ///< where the row of node n begins; one more entry than nodes
  std::span<Index const> head;              ///< the neighbours, row after row
  std::span<NodeWeight const> node_weight;  ///< of a node; empty: all weigh 1
  std::span<EdgeWeight const> edge_weight;  ///< beside `head`, alike at both ends; empty: all weigh 1

  std::size_t nodes() const { return first.empty() ? 0 : first.size() - 1; }
  std::size_t arcs() const { return head.size(); }  ///< ends of edges: twice the number of edges
  std::span<Index const> neighbours(std::size_t n) const {
    auto const begin = static_cast<std::size_t>(first[n]);
    return head.subspan(begin, static_cast<std::size_t>(first[n + 1]) - begin);
  }
  NodeWeight weight(std::size_t n) const { return node_weight.empty() ? NodeWeight{1} : node_weight[n]; }
  EdgeWeight weight_of_arc(std::size_t arc) const {
    return edge_weight.empty() ? EdgeWeight{1} : edge_weight[arc];
  }
};

/// The same in arrays of its own.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct adjacency {
  std::vector<Index> first{0};
  std::vector<Index> head;
  std::vector<NodeWeight> node_weight;
  std::vector<EdgeWeight> edge_weight;

  adjacency_view<Index, NodeWeight, EdgeWeight> view() const {
    return {first, head, node_weight, edge_weight};
  }
};

}  // namespace cleave
