// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave {

template <class T>
concept weight_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// An undirected graph in the arrays of whoever has them, as METIS (xadj, adjncy) and SciPy (indptr, indices)
/// have it: rows of neighbours one after the other, each edge at both of its ends, rows in any order. An edge
/// from a node to itself is of no account; edges between the same two nodes count as one with the sum of
/// their weights. No weight is negative. Types follow from arrays: `adjacency_view g{offsets, targets}`, or
/// with weights after them; `{}` stands for those of the nodes where only edges have some.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight,
          std::integral Offset = Index>
struct adjacency_view {
  std::span<Offset const> offsets;            ///< where the row of node n begins; one more than nodes
  std::span<Index const> targets;             ///< the neighbours, row after row
  std::span<NodeWeight const> node_weight{};  ///< of a node; empty: all weigh 1
  std::span<EdgeWeight const> edge_weight{};  ///< beside `targets`, alike at both ends; empty: all weigh 1

  std::size_t nodes() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  std::size_t arcs() const { return targets.size(); }  ///< ends of edges: twice the number of edges
  std::span<Index const> neighbours(std::size_t n) const {
    auto const begin = static_cast<std::size_t>(offsets[n]);
    return targets.subspan(begin, static_cast<std::size_t>(offsets[n + 1]) - begin);
  }
  NodeWeight weight(std::size_t n) const { return node_weight.empty() ? NodeWeight{1} : node_weight[n]; }
  EdgeWeight weight_of_arc(std::size_t arc) const {
    return edge_weight.empty() ? EdgeWeight{1} : edge_weight[arc];
  }
};

/// What an array, a vector or a span is of.
template <class Array>
using element_of = std::remove_cvref_t<decltype(*std::data(std::declval<Array const&>()))>;

template <class Offsets, class Targets, class NodeWeights = std::span<std::int64_t const>>
adjacency_view(Offsets const&, Targets const&, NodeWeights const& = {})
    -> adjacency_view<element_of<Targets>, element_of<NodeWeights>, element_of<NodeWeights>,
                      element_of<Offsets>>;
template <class Offsets, class Targets, class NodeWeights = std::span<std::int64_t const>, class EdgeWeights>
adjacency_view(Offsets const&, Targets const&, NodeWeights const&, EdgeWeights const&)
    -> adjacency_view<element_of<Targets>, element_of<NodeWeights>, element_of<EdgeWeights>,
                      element_of<Offsets>>;

/// The same in arrays of its own.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight>
struct adjacency {
  std::vector<Index> offsets{0};
  std::vector<Index> targets;
  std::vector<NodeWeight> node_weight;
  std::vector<EdgeWeight> edge_weight;

  adjacency_view<Index, NodeWeight, EdgeWeight> view() const {
    return {offsets, targets, node_weight, edge_weight};
  }
};
}  // namespace cleave
