// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave {

/// A promise of `adjacency_view` that arrays may break.
enum class broken_adjacency : std::uint8_t {
  wrong_length,      ///< an array of weights is neither empty nor as long as what it is of
  rows_out_of_arcs,  ///< `offsets` does not rise from 0 to the number of arcs; `node`: the first such row
  no_such_node,      ///< an arc leads to no node
  bad_node_weight,   ///< negative, infinite or no number
  bad_edge_weight,   ///< negative, infinite or no number
  nodes_too_heavy,   ///< the weights of nodes add up to more than 2^63 - 1, or than a double can hold
  edges_too_heavy,   ///< the weights of arcs do
  one_sided_edge,    ///< the other end does not list the edge as often with this weight
};

/// Which promise, and where; `arc` is an index of `targets` where the fault is that of an arc.
struct adjacency_fault {
  broken_adjacency what;
  std::size_t node = 0, arc = 0;

  bool operator==(adjacency_fault const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

class adjacency_error : public witness_error<adjacency_fault> {
 public:
  using witness_error::witness_error;
};

/// Adds up weights that are not negative, as long as they are weights and their sum has room.
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

/// Sums of hashes that cancel where each arc has its counterpart: one arc without always shows, several do
/// with all but certainty.
class arc_balance {
 public:
  void add(std::size_t from, std::size_t to, std::uint64_t weight) {
    if (from == to) return;
    auto const [low, high] = std::minmax(from, to);
    std::uint64_t x = (static_cast<std::uint64_t>(low) << 32 ^ high) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32 ^ weight * 0xc2b2ae3d27d4eb4fu) * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    sum_ += from < to ? x : -x;
  }
  void add(arc_balance const& other) { sum_ += other.sum_; }  ///< of other arcs
  bool even() const { return sum_ == 0; }

 private:
  std::uint64_t sum_ = 0;
};

/// Bits of a weight, equal where weights are.
template <weight_number Weight>
std::uint64_t weight_bits(Weight w) {
  if constexpr (std::floating_point<Weight>)
    return std::bit_cast<std::uint64_t>(static_cast<double>(w) + 0.0);  // one zero, not two
  else
    return static_cast<std::uint64_t>(w);
}

/// An arc that its other end lacks; there is one. Precondition: targets are nodes. O(n + m log d).
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::optional<adjacency_fault> find_one_sided_edge(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  struct entry {
    std::size_t other;
    std::uint64_t weight;
    std::size_t arc;
  };
  auto const n = g.nodes();
  std::vector<std::size_t> first(n + 1);  // of arcs by the node they lead to
  for (Index const to : g.targets) ++first[static_cast<std::size_t>(to) + 1];
  for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
  std::vector<entry> into(g.arcs());
  auto next = first;
  std::size_t arc = 0;
  for (std::size_t from = 0; from < n; ++from)
    for (Index const to : g.neighbours(from)) {
      into[next[static_cast<std::size_t>(to)]++] = {from, weight_bits(g.weight_of_arc(arc)), arc};
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
        row.push_back({static_cast<std::size_t>(to), weight_bits(g.weight_of_arc(here)), here});
    }
    for (auto i = first[at]; i < first[at + 1]; ++i)
      if (into[i].other != at) met.push_back(into[i]);
    sorted(row), sorted(met);
    for (std::size_t i = 0; i < (std::max)(row.size(), met.size()); ++i) {
      if (i < row.size() && i < met.size() && !differ(row[i], met[i])) continue;
      bool const only_here =
          i >= met.size() ||
          (i < row.size() && std::pair(row[i].other, row[i].weight) < std::pair(met[i].other, met[i].weight));
      return only_here ? adjacency_fault{broken_adjacency::one_sided_edge, at, row[i].arc}
                       : adjacency_fault{broken_adjacency::one_sided_edge, met[i].other, met[i].arc};
    }
  }
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave {

/// The first broken promise of arrays, or nothing. Two passes over the arcs, no memory, unless an edge is
/// one-sided.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::optional<adjacency_fault> find_adjacency_fault(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  using enum broken_adjacency;
  auto const n = g.nodes();
  auto const fits = [](std::size_t weights, std::size_t of) { return weights == 0 || weights == of; };
  if (!fits(g.node_weight.size(), n) || !fits(g.edge_weight.size(), g.arcs()))
    return adjacency_fault{wrong_length};
  std::uint64_t end = 0;
  for (std::size_t i = 0; i <= n && !g.offsets.empty(); ++i) {
    auto const here = static_cast<std::uint64_t>(g.offsets[i]);  // a negative one is large
    if (i == 0 ? here != 0 : here < end || here > g.arcs()) return adjacency_fault{rows_out_of_arcs, i, 0};
    end = here;
  }
  if (end != g.arcs()) return adjacency_fault{rows_out_of_arcs, n, 0};

  detail::weight_sum<NodeWeight> nodes;
  for (std::size_t i = 0; i < g.node_weight.size(); ++i) {
    if (!nodes.is_weight(g.node_weight[i])) return adjacency_fault{bad_node_weight, i, 0};
    nodes.add(g.node_weight[i]);
    if (nodes.overflows()) return adjacency_fault{nodes_too_heavy, i, 0};
  }
  detail::weight_sum<EdgeWeight> edges;
  detail::arc_balance balance;
  for (std::size_t from = 0; from < n; ++from) {
    auto const last = static_cast<std::size_t>(g.offsets[from + 1]);
    for (auto arc = static_cast<std::size_t>(g.offsets[from]); arc < last; ++arc) {
      auto const to = static_cast<std::uint64_t>(g.targets[arc]);
      if (to >= n) return adjacency_fault{no_such_node, from, arc};
      auto const w = g.weight_of_arc(arc);
      if (!edges.is_weight(w)) return adjacency_fault{bad_edge_weight, from, arc};
      edges.add(w);
      balance.add(from, static_cast<std::size_t>(to), detail::weight_bits(w));
    }
    if (edges.overflows()) return adjacency_fault{edges_too_heavy, from, last};
  }
  return balance.even() ? std::nullopt : detail::find_one_sided_edge(g);
}

/// What is wrong, as a sentence in numbers of nodes.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::string describe(adjacency_fault f, adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  auto const count = [](std::size_t i) { return std::to_string(i); };
  auto const node = "node #" + count(f.node);
  auto const edge = [&] { return "the edge from " + node + " to node #" + std::to_string(g.targets[f.arc]); };
  switch (f.what) {
    case broken_adjacency::wrong_length:
      return "there are " + count(g.nodes()) + " nodes and " + count(g.node_weight.size()) +
             " node weights, " + count(g.arcs()) + " arcs and " + count(g.edge_weight.size()) +
             " edge weights: give one for each, or none";
    case broken_adjacency::rows_out_of_arcs:
      if (g.offsets.empty()) return "there are " + count(g.arcs()) + " arcs and no rows";
      return "offsets[" + count(f.node) + "] is " + std::to_string(g.offsets[f.node]) +
             ": rows begin at 0, never before the row above, and end with the " + count(g.arcs()) + " arcs";
    case broken_adjacency::no_such_node:
      return node + " names the neighbour " + std::to_string(g.targets[f.arc]) + ", and there are " +
             count(g.nodes()) + " nodes";
    case broken_adjacency::bad_node_weight:
      return node + " weighs " + std::to_string(g.node_weight[f.node]) + ": weights are finite, not negative";
    case broken_adjacency::bad_edge_weight:
      return edge() + " weighs " + std::to_string(g.weight_of_arc(f.arc)) +
             ": weights are finite, not negative";
    case broken_adjacency::nodes_too_heavy:
      return "the weights of the nodes add up past 2^63 - 1 at " + node + ": take a larger unit";
    case broken_adjacency::edges_too_heavy:
      return "the weights of the edges, counted at both ends, add up past 2^63 - 1 at " + node +
             ": take a larger unit";
    case broken_adjacency::one_sided_edge:
      return edge() + ", of weight " + std::to_string(g.weight_of_arc(f.arc)) +
             ", is not listed as often at its other end with that weight: list each edge at both ends";
  }
  return "";
}

/// \throws adjacency_error if `find_adjacency_fault` finds one.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
void check_adjacency(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g) {
  if (auto const fault = find_adjacency_fault(g))
    throw detail::adjacency_error("graph: " + describe(*fault, g), *fault);
}

}  // namespace cleave
