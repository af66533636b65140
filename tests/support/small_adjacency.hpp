// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/model/partition.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

struct weighted_edge {
  std::uint32_t from, to;
  std::int64_t weight = 1;
};

/// Returns an undirected graph of these edges. Each is stored at both ends; a self-loop is stored once.
inline adjacency<std::uint32_t> adjacency_of(std::size_t nodes, std::vector<weighted_edge> const& edges) {
  adjacency<std::uint32_t> g;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    for (auto const& e : edges) {
      if (e.from != n && e.to != n) continue;
      g.targets.push_back(e.from == n ? e.to : e.from);
      g.edge_weight.push_back(e.weight);
    }
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

/// Returns a random graph with parallel edges and self-loops. Weights of nodes and edges are at most
/// `weights`.
inline adjacency<std::uint32_t> random_adjacency(rng& r, std::size_t nodes, std::size_t edges,
                                                 std::size_t weights) {
  auto const node = [&] { return static_cast<std::uint32_t>(r.below(nodes)); };
  std::vector<weighted_edge> list;
  while (list.size() < edges)
    list.push_back({node(), node(), static_cast<std::int64_t>(1 + r.below(weights))});
  auto g = adjacency_of(nodes, list);
  while (g.node_weight.size() < nodes)
    g.node_weight.push_back(static_cast<std::int64_t>(1 + r.below(weights)));
  return g;
}

inline adjacency<std::uint32_t> grid_adjacency(std::uint32_t width, std::uint32_t height) {
  adjacency<std::uint32_t> g;
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x) {
      auto const n = y * width + x;
      if (y > 0) g.targets.push_back(n - width);
      if (x > 0) g.targets.push_back(n - 1);
      if (x + 1 < width) g.targets.push_back(n + 1);
      if (y + 1 < height) g.targets.push_back(n + width);
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
  return g;
}

/// Returns a ring of `count` cliques of `size` nodes, each joined to the next by one edge.
inline adjacency<std::uint32_t> clique_ring(std::uint32_t count, std::uint32_t size) {
  std::vector<weighted_edge> edges;
  for (std::uint32_t c = 0; c < count; ++c) {
    for (std::uint32_t i = 0; i < size; ++i)
      for (std::uint32_t j = 0; j < i; ++j) edges.push_back({c * size + i, c * size + j});
    if (c > 0) edges.push_back({c * size, c * size - 1});
  }
  edges.push_back({0, count * size - 1});
  return adjacency_of(count * size, edges);
}

inline std::int64_t plain_cut(adjacency<std::uint32_t> const& g, std::vector<part_id> const& of) {
  std::int64_t both_ends = 0;
  for (std::size_t n = 0; n < of.size(); ++n)
    for (auto arc = g.offsets[n]; arc < g.offsets[n + 1]; ++arc)
      both_ends += of[n] != of[g.targets[arc]] ? g.view().weight_of_edge(arc) : 0;
  return both_ends / 2;
}

inline std::vector<std::int64_t> plain_weights(adjacency<std::uint32_t> const& g, partition const& p) {
  std::vector<std::int64_t> weights(p.parts);
  for (std::size_t n = 0; n < p.of.size(); ++n) weights[index(p.of[n])] += g.view().weight(n);
  return weights;
}

/// Returns the minimum cut over all bisections with two non-empty sides of weight at most `most`. Returns the
/// largest number if no such bisection exists. O(2^n m).
inline std::int64_t least_bisection(adjacency<std::uint32_t> const& g, std::int64_t most) {
  auto const n = g.view().nodes();
  auto least = std::numeric_limits<std::int64_t>::max();
  for (std::size_t set = 1; set + 1 < std::size_t{1} << n; ++set) {
    partition p{std::vector<part_id>(n), 2};
    for (std::size_t i = 0; i < n; ++i) p.of[i] = part_id{static_cast<std::uint32_t>(set >> i & 1)};
    auto const weights = plain_weights(g, p);
    if (std::max(weights[0], weights[1]) <= most) least = std::min(least, plain_cut(g, p.of));
  }
  return least;
}

}  // namespace cleave::testing
