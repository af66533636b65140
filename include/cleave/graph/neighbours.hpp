// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <ranges>
#include <string_view>
#include <type_traits>

#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/concepts.hpp"

/// What an undirected graph is, for partitioners that know no direction. As for computations
/// (`graph/concepts.hpp`) an adapter is a small class with the members below; each concept is one rung.
namespace cleave {

/// - `g.nodes()`        every node once, in any order.
/// - `g.neighbours(n)`  the nodes at the other ends of its edges: an edge is listed at both of its ends,
///                      parallel ones as often as there are, and one from `n` to itself is of no account.
template <class Graph>
concept undirected_graph = requires(Graph const& g) {
  { g.nodes() } -> std::ranges::forward_range;
} && handle<node_t<Graph>> && requires(Graph const& g, node_t<Graph> n) {
  { g.neighbours(n) } -> range_of<node_t<Graph>>;
};

}  // namespace cleave

namespace cleave::detail {

/// What may weigh: a number, or what converts to a double.
template <class T>
concept weight_like = weight_number<std::remove_cvref_t<T>> || std::convertible_to<T, double>;

}  // namespace cleave::detail

namespace cleave {

/// - `g.weight(n)`  what `n` weighs, in any one unit; finite, not negative. Without it all nodes weigh 1.
template <class Graph>
concept node_weighted_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.weight(n) } -> detail::weight_like;
};

}  // namespace cleave

namespace cleave::detail {

/// - `g.edge_weights(n)`  what the edges to `neighbours(n)` weigh, one beside each, alike at both ends;
///                        finite, not negative. Without it all edges weigh 1.
template <class Graph>
concept edge_weighted_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.edge_weights(n) } -> std::ranges::input_range;
  requires weight_like<std::ranges::range_reference_t<decltype(g.edge_weights(n))>>;
};

/// - `g.name(n)`  what messages call the node; may be empty, need not be unique.
template <class Graph>
concept named_undirected_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

/// A rung missed by an inch (not const, wrong type) must not become an ability that is ignored in silence:
/// whoever reads an undirected graph calls this first.
template <undirected_graph Graph>
consteval void check_undirected_rungs() {
  using N = node_t<Graph>;
  static_assert(
      node_weighted_graph<Graph> || !requires(Graph& g, N n) { g.weight(n); },
      "weight(n): make it const, a number");
  static_assert(
      edge_weighted_graph<Graph> || !requires(Graph& g, N n) { g.edge_weights(n); },
      "edge_weights(n): make it const, a range of numbers beside neighbours(n)");
  static_assert(
      named_undirected_graph<Graph> || !requires(Graph& g, N n) { g.name(n); },
      "name(n): make it const, a string");
}

}  // namespace cleave::detail
