// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/fixed_point.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave::inline v0_2 {

/// A type of weights: any arithmetic type but bool.
template <class T>
concept weight_number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;

/// The type of sums of weights: double for floating-point weights, otherwise a 64-bit integer.
template <weight_number Weight>
using weight_total = std::conditional_t<std::floating_point<Weight>, double, std::int64_t>;

/// An undirected graph as a view of CSR arrays that the caller owns, as in METIS (xadj, adjncy) and SciPy
/// (indptr, indices).
///
/// The neighbours of node n are the entries of `targets` from `offsets[n]` to `offsets[n + 1] - 1`, in any
/// order. Each edge is listed at both of its ends with the same weight. Self-loops are ignored. Parallel
/// edges count as one edge with the sum of their weights. No weight is negative.
///
/// The template arguments are deduced from the arrays: `adjacency_view g{offsets, targets}`, optionally
/// followed by node weights and edge weights. Pass `{}` for the node weights if only edges have weights.
template <std::integral Index, weight_number NodeWeight = std::int64_t, weight_number EdgeWeight = NodeWeight,
          std::integral Offset = Index>
struct adjacency_view {
  std::span<Offset const> offsets;  ///< where the neighbours of node n begin in `targets`; size: nodes + 1
  std::span<Index const> targets;   ///< the neighbours of all nodes, one node after the other
  std::span<NodeWeight const> node_weight{};  ///< of a node; empty: all weigh 1
  std::span<EdgeWeight const> edge_weight{};  ///< parallel to `targets`; empty: all weigh 1

  std::size_t nodes() const { return offsets.empty() ? 0 : offsets.size() - 1; }
  /// Returns the size of `targets`: twice the number of edges.
  std::size_t directed_edges() const { return targets.size(); }
  /// Returns the neighbours of node `n`.
  std::span<Index const> neighbours(std::size_t n) const {
    auto const begin = static_cast<std::size_t>(offsets[n]);
    return targets.subspan(begin, static_cast<std::size_t>(offsets[n + 1]) - begin);
  }
  NodeWeight weight(std::size_t n) const { return node_weight.empty() ? NodeWeight{1} : node_weight[n]; }
  /// Returns the weight of the edge at index `arc` of `targets`.
  EdgeWeight weight_of_edge(std::size_t arc) const {
    return edge_weight.empty() ? EdgeWeight{1} : edge_weight[arc];
  }
};

/// The element type of an array, a vector or a span.
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

/// An undirected graph in CSR arrays of its own; `adjacency_view` describes their contents.
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

/// The number of nodes of a graph and the sums of its weights.
struct graph_totals {
  std::uint64_t nodes = 0;
  std::optional<std::int64_t> node_weight{};  ///< sum over all nodes; empty: each node weighs 1
  std::optional<std::int64_t> edge_weight{};  ///< sum over all edges, each counted once; empty: unknown
};

/// A promise of `adjacency_view` that arrays may break.
enum class adjacency_violation : std::uint8_t {
  wrong_length,          ///< an array of weights is neither empty nor as long as the array that it belongs to
  offsets_out_of_range,  ///< `offsets` does not rise from 0 to the size of `targets`; `node` is the first
                         ///< wrong entry
  no_such_node,          ///< an entry of `targets` is not a node
  bad_node_weight,       ///< a node weight is negative, infinite or NaN
  bad_edge_weight,       ///< an edge weight is negative, infinite or NaN
  nodes_too_heavy,       ///< the sum of the node weights is above 2^63 - 1, or overflows a double
  edges_too_heavy,       ///< the sum of the edge weights, counted at both ends, does
  one_sided_edge,        ///< an edge is not listed as often at its other end with this weight
};

/// A broken promise and its place. `arc` is an index of `targets` if the fault is that of an edge.
struct adjacency_fault {
  adjacency_violation what;
  std::size_t node = 0, arc = 0;

  bool operator==(adjacency_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

using adjacency_error = witness_error<adjacency_fault>;

/// Adds up weights, and detects invalid weights and sums that overflow.
template <weight_number Weight>
class weight_sum {
 public:
  static bool is_weight(Weight w) {
    if constexpr (std::floating_point<Weight>)
      return w >= 0 && is_finite(static_cast<double>(w));
    else
      return !std::signed_integral<Weight> || w >= 0;
  }
  void add(Weight w) {
    if constexpr (std::floating_point<Weight>) {
      sum_ += static_cast<double>(w);
    } else {
      full_ |= static_cast<std::uint64_t>(w) > most - sum_;
      sum_ += static_cast<std::uint64_t>(w);
    }
  }
  bool overflows() const {
    if constexpr (std::floating_point<Weight>)
      return !is_finite(sum_);
    else
      return full_;
  }

 private:
  static constexpr std::uint64_t most = (std::numeric_limits<std::int64_t>::max)();
  std::conditional_t<std::floating_point<Weight>, double, std::uint64_t> sum_ = 0;
  bool full_ = false;
};

/// A sum of hashes of directed edges that is 0 if each edge is matched by its reverse with the same weight.
/// Unmatched edges make it nonzero with near certainty.
class edge_symmetry_hash {
 public:
  void add(std::size_t from, std::size_t to, std::uint64_t weight) {
    if (from == to) return;
    auto const [low, high] = std::minmax(from, to);
    std::uint64_t x = (static_cast<std::uint64_t>(low) << 32 ^ high) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32 ^ weight * 0xc2b2ae3d27d4eb4fu) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    sum_ += from < to ? x : -x;
  }
  void add(edge_symmetry_hash const& other) { sum_ += other.sum_; }  ///< adds the hashes of other edges
  bool even() const { return sum_ == 0; }

 private:
  std::uint64_t sum_ = 0;
};

/// Returns the bits of a weight. Equal weights have equal bits.
template <weight_number Weight>
std::uint64_t weight_bits(Weight w) {
  if constexpr (std::floating_point<Weight>)
    return std::bit_cast<std::uint64_t>(static_cast<double>(w) + 0.0);  // -0.0 becomes 0.0
  else
    return static_cast<std::uint64_t>(w);
}

/// Returns an edge that its other end does not list as often with the same weight, or nothing. Precondition:
/// all targets are nodes. O(n + m log d) for maximum degree d.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::optional<adjacency_fault> find_one_sided_edge(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  struct entry {
    std::size_t other;
    std::uint64_t weight;
    std::size_t arc;
  };
  auto const n = g.nodes();
  std::vector<std::size_t> first(n + 1);  // of the edges grouped by target
  for (Index const to : g.targets) ++first[static_cast<std::size_t>(to) + 1];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<entry> into(g.directed_edges());
  auto next = first;
  std::size_t arc = 0;
  for (std::size_t from = 0; from < n; ++from)
    for (Index const to : g.neighbours(from)) {
      into[next[static_cast<std::size_t>(to)]++] = {from, weight_bits(g.weight_of_edge(arc)), arc};
      ++arc;
    }
  std::vector<entry> row, met;
  auto const sorted = [](std::vector<entry>& list) {
    std::sort(list.begin(), list.end(), [](entry const& a, entry const& b) {
      return std::pair(a.other, a.weight) < std::pair(b.other, b.weight);
    });
  };
  auto const differ = [](entry const& a, entry const& b) {
    return a.other != b.other || a.weight != b.weight;
  };
  arc = 0;
  for (std::size_t at = 0; at < n; ++at) {
    row.clear(), met.clear();
    for (Index const to : g.neighbours(at)) {
      auto const here = arc++;
      if (static_cast<std::size_t>(to) != at)
        row.push_back({static_cast<std::size_t>(to), weight_bits(g.weight_of_edge(here)), here});
    }
    for (auto i = first[at]; i < first[at + 1]; ++i)
      if (into[i].other != at) met.push_back(into[i]);
    sorted(row), sorted(met);
    for (std::size_t i = 0; i < (std::max)(row.size(), met.size()); ++i) {
      if (i < row.size() && i < met.size() && !differ(row[i], met[i])) continue;
      bool const only_here =
          i >= met.size() ||
          (i < row.size() && std::pair(row[i].other, row[i].weight) < std::pair(met[i].other, met[i].weight));
      return only_here ? adjacency_fault{adjacency_violation::one_sided_edge, at, row[i].arc}
                       : adjacency_fault{adjacency_violation::one_sided_edge, met[i].other, met[i].arc};
    }
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first broken promise of the arrays, or nothing. O(n + m), without allocating memory. If an
/// edge is one-sided, O(n + m log d) for maximum degree d, with O(n + m) memory.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::optional<adjacency_fault> find_adjacency_fault(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  using enum adjacency_violation;
  auto const n = g.nodes();
  auto const fits = [](std::size_t weights, std::size_t of) { return weights == 0 || weights == of; };
  if (!fits(g.node_weight.size(), n) || !fits(g.edge_weight.size(), g.directed_edges()))
    return adjacency_fault{wrong_length};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i <= n && !g.offsets.empty(); ++i) {
    auto const here = static_cast<std::uint64_t>(g.offsets[i]);  // a negative offset becomes large
    if (i == 0 ? here != 0 : here < end || here > g.directed_edges())
      return adjacency_fault{offsets_out_of_range, i, 0};
    end = here;
  }
  if (end != g.directed_edges()) return adjacency_fault{offsets_out_of_range, n, 0};

  detail::weight_sum<NodeWeight> nodes;
  for (std::size_t i = 0; i < g.node_weight.size(); ++i) {
    if (!nodes.is_weight(g.node_weight[i])) return adjacency_fault{bad_node_weight, i, 0};
    nodes.add(g.node_weight[i]);
    if (nodes.overflows()) return adjacency_fault{nodes_too_heavy, i, 0};
  }
  detail::weight_sum<EdgeWeight> edges;
  detail::edge_symmetry_hash balance;
  for (std::size_t from = 0; from < n; ++from) {
    auto const last = static_cast<std::size_t>(g.offsets[from + 1]);
    for (auto arc = static_cast<std::size_t>(g.offsets[from]); arc < last; ++arc) {
      auto const to = static_cast<std::uint64_t>(g.targets[arc]);
      if (to >= n) return adjacency_fault{no_such_node, from, arc};
      auto const w = g.weight_of_edge(arc);
      if (!edges.is_weight(w)) return adjacency_fault{bad_edge_weight, from, arc};
      edges.add(w);
      balance.add(from, static_cast<std::size_t>(to), detail::weight_bits(w));
    }
    if (edges.overflows()) return adjacency_fault{edges_too_heavy, from, last};
  }
  return balance.even() ? std::nullopt : detail::find_one_sided_edge(g);
}

/// Returns a sentence that says what is wrong and names nodes by their numbers.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string describe(adjacency_fault f, adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  auto const count = [](std::size_t i) { return std::to_string(i); };
  auto const node = "node #" + count(f.node);
  auto const edge = [&] { return "the edge from " + node + " to node #" + std::to_string(g.targets[f.arc]); };
  switch (f.what) {
    case adjacency_violation::wrong_length:
      return "there are " + count(g.nodes()) + " nodes and " + count(g.node_weight.size()) +
             " node weights, " + count(g.directed_edges()) + " arcs and " + count(g.edge_weight.size()) +
             " edge weights: give one weight for each, or an empty array";
    case adjacency_violation::offsets_out_of_range:
      if (g.offsets.empty()) return "there are " + count(g.directed_edges()) + " arcs, but offsets is empty";
      return "offsets[" + count(f.node) + "] is " + std::to_string(g.offsets[f.node]) +
             ": offsets must begin at 0, never decrease, and end at the number of arcs; there are " +
             count(g.directed_edges()) + " arcs";
    case adjacency_violation::no_such_node:
      return node + " lists the neighbour " + std::to_string(g.targets[f.arc]) + ", but the graph has only " +
             count(g.nodes()) + " nodes";
    case adjacency_violation::bad_node_weight:
      return node + " weighs " + std::to_string(g.node_weight[f.node]) +
             ": weights must be finite and not negative";
    case adjacency_violation::bad_edge_weight:
      return edge() + " weighs " + std::to_string(g.weight_of_edge(f.arc)) +
             ": weights must be finite and not negative";
    case adjacency_violation::nodes_too_heavy:
      return "the sum of the node weights exceeds 2^63 - 1 at " + node + ": use a larger unit";
    case adjacency_violation::edges_too_heavy:
      return "the sum of the edge weights, counted at both ends, exceeds 2^63 - 1 at " + node +
             ": use a larger unit";
    case adjacency_violation::one_sided_edge:
      return edge() + ", of weight " + std::to_string(g.weight_of_edge(f.arc)) +
             ", is listed a different number of times at its other end: list each edge at both ends with the "
             "same weight";
  }
  return "";
}

/// Checks the arrays of a graph, as `find_adjacency_fault` does.
/// \throws adjacency_error if there is a fault
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
void check_adjacency(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  if (auto const fault = find_adjacency_fault(g))
    detail::raise(detail::adjacency_error("graph: " + describe(*fault, g), *fault));
}

/// A list of undirected edges, in any order, each once and in either direction. Self-loops are ignored.
template <std::integral Index, weight_number Weight = std::int64_t>
struct edge_pairs {
  std::vector<Index> from, to;  ///< the two ends of each edge
  std::vector<Weight> weight;   ///< of an edge; empty: all weigh 1

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

/// The treatment of several edges between the same two nodes. They become one edge with the sum of their
/// weights (`add_up`) or with the largest weight (`count_once`).
enum class repeated_edges : std::uint8_t { add_up, count_once };

/// Builds the CSR arrays of a graph from a list of edges. The neighbours of each node are ascending, each
/// once. Edges without weights stay without weights, unless `repeated` is `add_up` and some edge is repeated.
/// Then the weight of an edge is its number of repetitions. O(nodes + edges).
/// \throws index_overflow if there are too many nodes or ends of edges for `Index`
/// \throws error if weights add up to more than 2^63 - 1
template <std::integral Index, weight_number Weight>
adjacency<Index, Weight> adjacency_of_edges(std::size_t nodes, edge_pairs<Index, Weight> const& edges,
                                            repeated_edges repeated = repeated_edges::add_up) {
  constexpr auto most = static_cast<std::uint64_t>((std::numeric_limits<Index>::max)());
  if (nodes >= most || edges.size() > most / 2)
    detail::raise(index_overflow(std::numeric_limits<Index>::digits));
  bool const weighted = !edges.weight.empty();
  expects(edges.to.size() == edges.size() && (!weighted || edges.weight.size() == edges.size()),
          "two ends of each edge, and a weight of each or of none");
  detail::weight_sum<Weight> total;
  for (Weight const w : edges.weight) total.add(w);
  if (total.overflows())
    detail::raise(error("the sum of the edge weights exceeds 2^63 - 1: use a larger unit"));

  // Groups the directed edges by target. Distributing the groups in order then fills each row in ascending
  // order.
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
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns each edge once, from the larger node number to the smaller. Parallel edges are merged, and their
/// weights add up. O(nodes + edges).
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

}  // namespace cleave::detail

/// Converts the weights of a graph to 64-bit integers. Their sums are exact and do not depend on the order.
namespace cleave::inline v0_2::detail {

/// Returns the unit in which floating-point weights have a sum below 2^60. Integer weights stay as they are.
template <weight_number Weight>
fixed_point exact_unit(std::span<Weight const> weights) {
  if constexpr (std::floating_point<Weight>) {
    double total = 0;
    for (auto const w : weights) total += static_cast<double>(w);
    return fixed_point::for_total(total);
  } else {
    return {};
  }
}

template <weight_number Weight>
std::int64_t in_unit(Weight w, fixed_point unit) {
  if constexpr (std::floating_point<Weight>)
    return unit.of(static_cast<double>(w));
  else
    return static_cast<std::int64_t>(w);
}

}  // namespace cleave::detail
