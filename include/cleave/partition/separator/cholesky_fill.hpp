// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2 {

/// The size of a Cholesky factor L of a sparse matrix whose pattern is a graph.
struct cholesky_size {
  std::uint64_t nonzeros = 0;  ///< entries of L, with the diagonal
  double flops = 0;  ///< sum of the squares of the entries per column: multiplications and additions
  std::vector<std::uint32_t> column{};  ///< entries of each column of L, with the diagonal, in the order
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if an order is not a permutation of the nodes. `witness` is the first wrong position.
using order_error = tagged_error<struct order_tag, std::size_t>;

/// Returns the elimination tree of the graph in the given order: the parent of each position, or the number
/// of nodes for a root. Liu, TOMS 12(2), 1986.
template <class Graph>
std::vector<std::uint32_t> elimination_tree(Graph const& g, std::vector<std::uint32_t> const& order,
                                            std::vector<std::uint32_t> const& position) {
  auto const nodes = static_cast<std::uint32_t>(order.size());
  std::vector<std::uint32_t> parent(nodes, nodes), ancestor(nodes, nodes);
  for (std::uint32_t at = 0; at < nodes; ++at)
    for (auto const target : g.neighbours(order[at])) {
      auto below = position[static_cast<std::size_t>(target)];
      while (below < at) {
        auto const next = std::exchange(ancestor[below], at);
        if (next == nodes) {
          parent[below] = at;
          break;
        }
        below = next;
      }
    }
  return parent;
}

/// Returns the positions of a forest, children before their parents and each subtree in one piece.
inline std::vector<std::uint32_t> children_first(std::vector<std::uint32_t> const& parent) {
  auto const nodes = static_cast<std::uint32_t>(parent.size());
  std::vector<std::uint32_t> child(std::size_t{nodes} + 1, nodes), sibling(nodes, nodes), open, sorted;
  for (auto n = nodes; n-- > 0;) sibling[n] = std::exchange(child[parent[n]], n);
  sorted.reserve(nodes);
  for (auto root = child[nodes]; root != nodes; root = sibling[root]) {
    open.push_back(root);
    while (!open.empty()) {
      auto const n = open.back();
      if (auto const first = std::exchange(child[n], nodes); first != nodes) {
        // Only the first child is put on the stack; its siblings follow one by one.
        open.push_back(first);
        continue;
      }
      open.pop_back();
      sorted.push_back(n);
      if (parent[n] != nodes && sibling[n] != nodes) open.push_back(sibling[n]);
    }
  }
  return sorted;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the first position at which `order` is not a permutation of the numbers below `nodes`: an entry
/// that is too large or a repetition. If the length is wrong, returns the smaller of length and `nodes`.
template <std::integral Index>
std::optional<std::size_t> find_order_fault(std::size_t nodes, std::vector<Index> const& order) {
  std::vector<bool> seen(nodes, false);
  for (std::size_t i = 0; i < order.size() && i < nodes; ++i) {
    auto const n = static_cast<std::uint64_t>(order[i]);
    if (n >= nodes || seen[static_cast<std::size_t>(n)]) return i;
    seen[static_cast<std::size_t>(n)] = true;
  }
  if (order.size() != nodes) return (std::min)(order.size(), nodes);
  return std::nullopt;
}

/// Returns the size of the Cholesky factor of a matrix with the pattern of `g`, if rows and columns are
/// eliminated in this order. The factor itself is not computed. Weights and self-loops do not matter.
///
/// Counts columns by the leaves of row subtrees: Gilbert, Ng, Peyton, SIMAX 15(4), 1994. O((n + m) log n).
/// \param order  the node at each position, as `nested_dissection` returns it
/// \throws adjacency_error if the arrays are not a valid undirected graph.
/// \throws order_error if `order` is not a permutation of the nodes.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
cholesky_size cholesky_fill(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                            std::vector<std::uint32_t> const& order) {
  check_adjacency(g);
  if (auto const fault = find_order_fault(g.nodes(), order))
    throw detail::order_error("Cholesky factor: the order is not a permutation of the " +
                                  std::to_string(g.nodes()) + " nodes; see its position " +
                                  std::to_string(*fault),
                              *fault);
  auto const nodes = static_cast<std::uint32_t>(order.size());
  std::vector<std::uint32_t> position(nodes);
  for (std::uint32_t at = 0; at < nodes; ++at) position[order[at]] = at;
  auto const parent = detail::elimination_tree(g, order, position);
  auto const sorted = detail::children_first(parent);
  // Row i of L is a subtree of the elimination tree. Adding 1 at its leaves and subtracting 1 at the lowest
  // common ancestors of consecutive leaves, and above its root, counts each of its positions once.
  std::vector<std::uint32_t> first(nodes, nodes);  // first descendant, as a place in `sorted`
  for (std::uint32_t place = 0; place < nodes; ++place)
    for (auto at = sorted[place]; at != nodes && first[at] == nodes; at = parent[at]) first[at] = place;
  std::vector<std::int64_t> change(nodes, 0);
  std::vector<std::uint32_t> last_leaf(nodes, nodes), last_first(nodes, 0), above(nodes);
  for (std::uint32_t at = 0; at < nodes; ++at) above[at] = at;
  auto const root_of = [&](std::uint32_t at) {
    auto root = at;
    while (above[root] != root) root = above[root];
    while (above[at] != root) at = std::exchange(above[at], root);
    return root;
  };
  for (auto const at : sorted) {
    bool is_leaf = true;  // of its own row subtree
    for (auto const target : g.neighbours(order[at])) {
      auto const row = position[static_cast<std::size_t>(target)];
      if (row < at) is_leaf = false;
      if (row <= at) continue;
      if (last_leaf[row] != nodes && first[at] < last_first[row]) continue;  // a leaf below it has been seen
      ++change[at];
      if (last_leaf[row] != nodes) --change[root_of(last_leaf[row])];
      last_leaf[row] = at;
      last_first[row] = first[at] + 1;
    }
    if (is_leaf) ++change[at];
    if (parent[at] != nodes) {
      --change[parent[at]];
      above[at] = parent[at];
    }
  }
  cholesky_size size;
  size.column.resize(nodes);
  for (auto const at : sorted) {
    if (parent[at] != nodes) change[parent[at]] += change[at];
    auto const entries = static_cast<std::uint64_t>(change[at]);
    size.column[at] = static_cast<std::uint32_t>(entries);
    size.nonzeros += entries;
    size.flops += static_cast<double>(entries) * static_cast<double>(entries);
  }
  return size;
}

}  // namespace cleave
