// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/random.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/separator/detail/multilevel_separator.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"
#include "cleave/partition/separator/detail/separation.hpp"

namespace cleave::inline v0_2 {

/// Options of `vertex_separator`.
struct separator_options {
  double imbalance = 0.2;      ///< how far a side may exceed half of the total node weight: 0.2 is 20 %
  std::uint32_t restarts = 8;  ///< separators tried; more of them take longer, and the lightest is smaller
  std::uint64_t seed = 1;
};

/// The place of a node: on one of the two sides, or in the separator between them.
enum class separator_side : std::uint8_t { left, right, separator };

/// A set of nodes without which no edge joins the two sides of a graph.
template <weight_number NodeWeight = std::int64_t>
struct separated_graph {
  std::vector<separator_side> side;                   ///< of each node
  std::array<weight_total<NodeWeight>, 3> weights{};  ///< of the left side, the right side and the separator
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if an option is invalid. `witness` is its value.
using separator_option_error = tagged_error<struct separator_option_tag, double>;

inline void check_separator_options(double imbalance, std::uint32_t restarts) {
  if (!(imbalance >= 0 && is_finite(imbalance)))
    throw separator_option_error(
        "vertex separator: the imbalance is negative or not finite: expected a finite "
        "number of at least 0",
        imbalance);
  if (restarts == 0)
    throw separator_option_error("vertex separator: there are 0 restarts: request at least 1", 0);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Finds a light vertex separator: nodes whose removal leaves two sides that no edge joins. No side weighs
/// more than (1 + imbalance) times half of the total node weight. Weights of edges do not matter.
///
/// A side may be empty if the separator is lighter that way, as in a complete graph. For a given seed, the
/// result is the same with any compiler. Complexity: O((n + m) * restarts).
///
/// \param g  the graph in CSR form; each edge appears in the rows of both of its ends
/// \throws adjacency_error if the arrays are not a valid undirected graph.
/// \throws separator_option_error if the imbalance is negative or there are no restarts.
/// \throws separator_size_error if nodes or directed edges exceed 32 bits.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
separated_graph<NodeWeight> vertex_separator(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                             separator_options const& options = {}) {
  detail::check_separator_options(options.imbalance, options.restarts);
  check_adjacency(g);
  auto plain = detail::without_parallel_edges(g);
  plain.weight = detail::integer_node_weights(g);
  auto const limit = detail::side_limit_of(plain.total(), options.imbalance);
  splitmix random(options.seed);
  detail::separator_config const config{.trials = options.restarts, .small_trials = options.restarts};
  auto const best = detail::multilevel_separator(plain, limit, config).best(random);
  separated_graph<NodeWeight> result;
  result.side.reserve(g.nodes());
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    result.side.push_back(static_cast<separator_side>(best.of[n]));
    result.weights[best.of[n]] += static_cast<weight_total<NodeWeight>>(g.weight(n));
  }
  return result;
}

/// Returns a node that has a neighbour on the other side, if there is one. The separator is then invalid. If
/// the number of sides is wrong, returns the smaller of it and the number of nodes. O(n + m).
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::optional<std::size_t> find_separator_fault(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                                std::vector<separator_side> const& side) {
  if (side.size() != g.nodes()) return (std::min)(side.size(), g.nodes());
  for (std::size_t n = 0; n < side.size(); ++n) {
    if (side[n] != separator_side::left) continue;
    for (auto const other : g.neighbours(n))
      if (side[static_cast<std::size_t>(other)] == separator_side::right) return n;
  }
  return std::nullopt;
}

}  // namespace cleave
