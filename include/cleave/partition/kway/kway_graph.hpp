// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/graph/neighbour_snapshot.hpp"
#include "cleave/graph/neighbours.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/model/partition.hpp"

/// k-way partitions of a user's own undirected graph, by position in `nodes()`. The graph is read anew by
/// each call; who makes several reads it once, by `neighbours_of`.
namespace cleave {

/// \throws neighbour_error, and what the function on arrays throws.
template <undirected_graph Graph>
auto partition_kway(Graph const& g, std::uint32_t k, kway_options const& options = {}) {
  return detail::with_neighbours(g, [&](auto const& s) { return partition_kway(s.view(), k, options); });
}

/// \throws neighbour_error, and what the function on arrays throws.
template <undirected_graph Graph>
auto refine_kway(Graph const& g, partition const& start, kway_options const& options = {}) {
  return detail::with_neighbours(g, [&](auto const& s) { return refine_kway(s.view(), start, options); });
}
}  // namespace cleave
