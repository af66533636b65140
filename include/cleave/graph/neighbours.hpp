// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "cleave/core/error.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"

/// The concepts of an undirected graph, for partitioners that ignore directions. As for computations
/// (`graph/concepts.hpp`), an adapter is a small class with the members below. Each concept adds one ability.
namespace cleave::inline v0_2 {

/// A graph without directions.
/// - `g.nodes()`  every node once, in any order.
/// - `g.neighbours(n)`  the nodes at the other ends of the edges of `n`. Each edge is listed at both of its
///   ends, and parallel edges as often as there are. Self-loops are ignored.
template <class Graph>
concept undirected_graph = requires(Graph const& g) {
  { g.nodes() } -> std::ranges::forward_range;
} && handle<node_t<Graph>> && requires(Graph const& g, node_t<Graph> n) {
  { g.neighbours(n) } -> range_of<node_t<Graph>>;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A type of weights: a number, or a type that converts to double.
template <class T>
concept weight_like = weight_number<std::remove_cvref_t<T>> || std::convertible_to<T, double>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// An undirected graph whose nodes have weights.
/// - `g.weight(n)`  the weight of `n`, in any one unit; finite, not negative. Without it all nodes weigh 1.
template <class Graph>
concept node_weighted_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.weight(n) } -> detail::weight_like;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// An undirected graph whose edges have weights.
/// - `g.edge_weights(n)`  the weights of the edges to `neighbours(n)`, in the same order and equal at both
///   ends; finite, not negative. Without it all edges weigh 1.
template <class Graph>
concept edge_weighted_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.edge_weights(n) } -> std::ranges::input_range;
  requires weight_like<std::ranges::range_reference_t<decltype(g.edge_weights(n))>>;
};

/// An undirected graph whose nodes have names.
/// - `g.name(n)`  the node's name in messages; may be empty, need not be unique.
template <class Graph>
concept named_undirected_graph = undirected_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

/// Checks at compile time that no member of an adapter has a wrong signature, such as a missing `const` or a
/// wrong type. Otherwise the ability would be ignored silently. Each function that reads an undirected graph
/// calls this first.
template <undirected_graph Graph>
consteval void check_undirected_concepts() {
  using N = node_t<Graph>;
  static_assert(
      node_weighted_graph<Graph> || !requires(Graph& g, N n) { g.weight(n); },
      "weight(n): make it const, a number");
  static_assert(
      edge_weighted_graph<Graph> || !requires(Graph& g, N n) { g.edge_weights(n); },
      "edge_weights(n): make it const, a range of numbers, one for each of neighbours(n)");
  static_assert(
      named_undirected_graph<Graph> || !requires(Graph& g, N n) { g.name(n); },
      "name(n): make it const, a string");
}

/// The type in which a weight is stored: its own type, or double.
template <weight_like T>
using kept_weight = typename std::conditional_t<weight_number<std::remove_cvref_t<T>>, std::remove_cvref<T>,
                                                std::type_identity<double>>::type;

/// Returns the weight of `n` in `g`, or 1 if the graph has no node weights.
template <undirected_graph Graph>
auto node_weight_of(Graph const& g, node_t<Graph> const& n) {
  if constexpr (node_weighted_graph<Graph>)
    return static_cast<kept_weight<decltype(g.weight(n))>>(g.weight(n));
  else
    return std::int64_t{1};
}

/// Returns the weights of the edges of `n`, parallel to its neighbours, or nothing if the graph has no edge
/// weights.
template <undirected_graph Graph>
decltype(auto) edge_weights_of(Graph const& g, node_t<Graph> const& n) {
  if constexpr (edge_weighted_graph<Graph>)
    return g.edge_weights(n);
  else
    return std::views::empty<std::int64_t>;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The type of a graph's node weights.
template <undirected_graph Graph>
using node_weight_t =
    decltype(detail::node_weight_of(std::declval<Graph const&>(), std::declval<node_t<Graph>>()));

/// The type of a graph's edge weights.
template <undirected_graph Graph>
using edge_weight_t = detail::kept_weight<std::ranges::range_reference_t<decltype(detail::edge_weights_of(
    std::declval<Graph const&>(), std::declval<node_t<Graph>>()))>>;

/// An undirected graph as CSR arrays without self-loops, and the mapping to the user's handles. The template
/// is not constrained, so that clang names the missing member of a graph rather than this class.
template <class Graph, std::unsigned_integral Index = std::uint32_t>
struct neighbour_snapshot : adjacency<Index, node_weight_t<Graph>, edge_weight_t<Graph>> {
  numbering<node_t<Graph>, Index> node;  ///< maps positions to handles and back
};

/// A promise of an adapter of an undirected graph that no concept can express.
enum class neighbour_violation : std::uint8_t {
  node_twice,       ///< `nodes()` lists `node` twice
  unlisted,         ///< `node` has the neighbour `other`, which `nodes()` does not list
  uneven_weights,   ///< `edge_weights(node)` does not have one weight for each of `neighbours(node)`
  bad_node_weight,  ///< the weight of `node` is negative, infinite or NaN
  bad_edge_weight,  ///< the weight of the edge from `node` to `other` is
  one_sided_edge,   ///< `other` does not list `node` as often with the same weight
  too_heavy,        ///< the sum of the weights of nodes or edges overflows at `node`
};

/// A broken promise and its place, in the user's handles. `other` is `node` if there is no second node.
template <class Node>
struct neighbour_fault {
  neighbour_violation what;
  Node node, other;
  std::size_t at;  ///< the position of `node` in `nodes()`

  bool operator==(neighbour_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

template <class Node>
using neighbour_error = witness_error<neighbour_fault<Node>>;

/// Reads an undirected graph node by node, for `neighbours_of` and `find_neighbour_fault`.
template <undirected_graph Graph, std::unsigned_integral Index>
class neighbour_reader {
 public:
  using fault = neighbour_fault<node_t<Graph>>;

  explicit neighbour_reader(Graph const& g) : g_(g) {}

  /// Fills `s`. Returns the first fault, or nothing if `s` is complete.
  std::optional<fault> read(neighbour_snapshot<Graph, Index>& s) {
    if constexpr (std::ranges::sized_range<decltype(g_.nodes())>) {
      s.node.reserve(std::ranges::size(g_.nodes()));
      s.offsets.reserve(std::ranges::size(g_.nodes()) + 1);
    }
    std::size_t at = 0;
    for (auto const& n : g_.nodes()) {
      if (s.node.insert(n) != at) return fault{neighbour_violation::node_twice, n, n, at};
      if constexpr (node_weighted_graph<Graph>) s.node_weight.push_back(node_weight_of(g_, n));
      ++at;
    }
    at = 0;
    for (auto const& n : g_.nodes()) {
      if (auto const bad = read_row(s, n, at)) return bad;
      s.offsets.push_back(narrow<Index>(s.targets.size()));
      ++at;
    }
    return in_handles(s, find_adjacency_fault(s.view()));
  }

 private:
  std::optional<fault> read_row(neighbour_snapshot<Graph, Index>& s, node_t<Graph> const& n, std::size_t at) {
    auto&& weights = edge_weights_of(g_, n);
    auto weight = std::ranges::begin(weights);
    auto const last = std::ranges::end(weights);
    for (auto const& other : g_.neighbours(n)) {
      auto const to = s.node.find(other);
      if (to == none<Index>) return fault{neighbour_violation::unlisted, n, other, at};
      if constexpr (edge_weighted_graph<Graph>) {
        if (weight == last) return fault{neighbour_violation::uneven_weights, n, n, at};
        if (to != at) s.edge_weight.push_back(static_cast<edge_weight_t<Graph>>(*weight));
        ++weight;
      }
      if (to != at) s.targets.push_back(to);
    }
    if (!(weight == last)) return fault{neighbour_violation::uneven_weights, n, n, at};
    return std::nullopt;
  }

  std::optional<fault> in_handles(neighbour_snapshot<Graph, Index> const& s,
                                  std::optional<adjacency_fault> const& f) const {
    if (!f) return std::nullopt;
    auto const& n = s.node[static_cast<Index>(f->node)];
    auto const& other = f->arc < s.targets.size() ? s.node[s.targets[f->arc]] : n;
    switch (f->what) {
      case adjacency_violation::bad_node_weight:
        return fault{neighbour_violation::bad_node_weight, n, n, f->node};
      case adjacency_violation::bad_edge_weight:
        return fault{neighbour_violation::bad_edge_weight, n, other, f->node};
      case adjacency_violation::one_sided_edge:
        return fault{neighbour_violation::one_sided_edge, n, other, f->node};
      default:
        return fault{neighbour_violation::too_heavy, n, n, f->node};
    }
  }

  Graph const& g_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a sentence that begins with the node and says what is wrong. Nodes are named by `name(n)` and
/// position.
template <undirected_graph Graph, std::unsigned_integral Index>
std::string describe(neighbour_fault<node_t<Graph>> const& f, Graph const& g,
                     neighbour_snapshot<Graph, Index> const& s) {
  auto const called = [&](node_t<Graph> const& n, std::size_t at) {
    if constexpr (detail::named_undirected_graph<Graph>)
      return "node " + label(std::string_view(g.name(n)), at);
    else
      return "node " + label(std::string_view(), at);
  };
  auto node = called(f.node, f.at);
  auto const other = [&] { return called(f.other, s.node.find(f.other)); };
  switch (f.what) {
    case neighbour_violation::node_twice:
      return node + " is listed twice: nodes() must list each node once";
    case neighbour_violation::unlisted:
      return node + " has a neighbour that nodes() does not list";
    case neighbour_violation::uneven_weights:
      return node +
             " has different numbers of neighbours and edge weights: edge_weights(n) must have one weight "
             "for each neighbour";
    case neighbour_violation::bad_node_weight:
      return node + " weighs " + std::to_string(detail::node_weight_of(g, f.node)) +
             ": weights must be finite and not negative";
    case neighbour_violation::bad_edge_weight:
      return node + " has an edge to " + other() + " whose weight is negative or not a number";
    case neighbour_violation::one_sided_edge:
      return node + " has an edge to " + other() +
             ", which lists it a different number of times: list each edge at both ends with the same weight";
    case neighbour_violation::too_heavy:
      return node + " raises the sum of the weights above 2^63 - 1: use a larger unit";
  }
  return node;
}

/// Returns the first broken promise of an adapter of an undirected graph, or nothing. Run it first on a new
/// adapter. Expected O(n + m).
template <undirected_graph Graph>
std::optional<neighbour_fault<node_t<Graph>>> find_neighbour_fault(Graph const& g) {
  detail::check_undirected_concepts<Graph>();
  neighbour_snapshot<Graph, std::size_t> s;
  return detail::neighbour_reader<Graph, std::size_t>(g).read(s);
}

/// Reads `g` once into flat arrays. Nodes are numbered by their position in `nodes()`, and neighbours keep
/// their order. Expected O(n + m); all hashing of handles is done here.
/// \throws neighbour_error if the adapter breaks a promise
/// \throws index_overflow if `Index` is too narrow
template <std::unsigned_integral Index = std::uint32_t, undirected_graph Graph>
neighbour_snapshot<Graph, Index> neighbours_of(Graph const& g) {
  detail::check_undirected_concepts<Graph>();
  neighbour_snapshot<Graph, Index> s;
  if (auto const fault = detail::neighbour_reader<Graph, Index>(g).read(s))
    detail::raise(detail::neighbour_error<node_t<Graph>>("adapter: " + describe(*fault, g, s), *fault));
  return s;
}

}  // namespace cleave
