// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/separator/cholesky_fill.hpp"
#include "cleave/partition/separator/detail/constrained_minimum_degree.hpp"
#include "cleave/partition/separator/detail/dissector.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"
#include "cleave/partition/separator/vertex_separator.hpp"

namespace cleave::inline v0_2 {

/// Options of `nested_dissection`.
struct dissection_options {
  double imbalance = 0.3;      ///< how far a side may exceed half of the nodes that it is cut from
  std::uint32_t restarts = 1;  ///< separators tried for each large piece; more of them take longer
  std::uint32_t leaf = 200;    ///< pieces of at most this many nodes are ordered by minimum degree
  std::uint64_t seed = 1;
};

/// An order in which the rows and columns of a sparse matrix are eliminated.
struct elimination_order {
  std::vector<std::uint32_t> order;          ///< the node at each position
  std::vector<std::uint32_t> position;       ///< the position of each node
  std::vector<std::size_t> separator_sizes;  ///< nodes of each separator: the topmost, then those on its left
                                             ///< side, then those on its right side
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the graph without the edges of dense nodes, which have very many neighbours. `dense` tells which
/// nodes these are. They are ordered last.
inline plain_graph without_dense_nodes(plain_graph g, std::vector<std::uint8_t>& dense) {
  // More than 10 times the square root of the number of nodes.
  auto const is_dense = [&](std::uint64_t degree) {
    return degree > 16 && degree * degree > 100 * std::uint64_t{g.nodes()};
  };
  bool found = false;
  dense.assign(g.nodes(), 0);
  for (std::uint32_t n = 0; n < g.nodes(); ++n)
    if (is_dense(g.degree(n))) dense[n] = 1, found = true;
  if (!found) return g;
  plain_graph thin;
  for (std::uint32_t n = 0; n < g.nodes(); ++n) {
    for (auto e = g.offsets[n]; e < g.offsets[n + 1] && !dense[n]; ++e)
      if (!dense[g.targets[e]]) thin.targets.push_back(g.targets[e]);
    thin.offsets.push_back(static_cast<std::uint32_t>(thin.targets.size()));
  }
  thin.weight = std::move(g.weight);
  return thin;
}

/// An order, and whether pieces were cut by separators with many nodes.
struct dissected_order {
  elimination_order elimination;
  bool has_heavy_separators = false;
};

/// Orders the nodes: first thin nodes, then the blocks of a nested dissection of the others, then dense
/// nodes. Each block is ordered by minimum degree.
inline dissected_order order_by_dissection(plain_graph const& g, std::vector<std::uint8_t> const& dense,
                                           dissection_config const& config, std::uint64_t seed) {
  dissected_order made;
  std::vector<std::uint32_t> block_of(g.nodes(), 0), nodes;
  thin_elimination const thin(g);
  auto const core = thin.remaining(nodes);
  auto const group = equal_neighbours(core);
  auto const groups = grouped(core, group);
  dissector pieces(groups, config, seed);
  made.has_heavy_separators = pieces.found_heavy_separators;
  made.elimination.separator_sizes = std::move(pieces.separator_sizes);
  for (std::uint32_t i = 0; i < nodes.size(); ++i) block_of[nodes[i]] = 1 + pieces.block_of[group[i]];
  for (std::uint32_t n = 0; n < g.nodes(); ++n)
    if (dense[n]) block_of[n] = g.nodes() + 1;
  made.elimination.order = constrained_minimum_degree(g, block_of).order();
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns an order of the nodes in which the Cholesky factorization of a matrix with the pattern of `g`
/// fills in little (fill-reducing order).
///
/// Vertex separators cut the graph into pieces, which are eliminated before their separator. Pieces of at
/// most `leaf` nodes, and the nodes of a separator, are ordered by approximate minimum degree. Nodes of
/// degree 1 and 2 are eliminated first, and nodes with very many neighbours last. If separators are heavy, a
/// second order leaves such pieces to the minimum degree, and the one with fewer flops is returned. Weights
/// and self-loops do not matter.
///
/// For a given seed, the result is the same with any compiler. George, SINUM 10(2), 1973; Karypis, Kumar,
/// SISC 20(1), 1998. Complexity: O((n + m) * restarts * log n) without the minimum degree.
///
/// \param g  the graph in CSR form; each edge appears in the rows of both of its ends
/// \throws adjacency_error if the arrays are not a valid undirected graph.
/// \throws separator_option_error if the imbalance is negative or there are no restarts.
/// \throws separator_size_error if nodes or directed edges exceed 32 bits.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
elimination_order nested_dissection(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                    dissection_options const& options = {}) {
  detail::check_separator_options(options.imbalance, options.restarts);
  check_adjacency(g);
  std::vector<std::uint8_t> dense;
  auto plain = detail::without_parallel_edges(g);
  plain.weight.assign(plain.nodes(), 1);
  plain = detail::without_dense_nodes(std::move(plain), dense);
  detail::dissection_config config;
  config.imbalance = options.imbalance;
  config.separator.trials = options.restarts;
  config.separator.small_trials = (options.restarts + 3) / 4;
  config.leaf = (std::max)(2u, options.leaf);
  auto made = detail::order_by_dissection(plain, dense, config, options.seed);
  if (made.has_heavy_separators) {
    // networks without light separators often fill in less by minimum degree alone
    config.keep_heavy_separators = false;
    auto other = detail::order_by_dissection(plain, dense, config, options.seed);
    if (cholesky_fill(g, other.elimination.order).flops < cholesky_fill(g, made.elimination.order).flops)
      made = std::move(other);
  }
  auto result = std::move(made.elimination);
  result.position.resize(result.order.size());
  for (std::uint32_t at = 0; at < result.order.size(); ++at) result.position[result.order[at]] = at;
  return result;
}

}  // namespace cleave
