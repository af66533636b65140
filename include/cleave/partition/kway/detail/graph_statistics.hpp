// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/real.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::detail {

/// Mean and variance of the degrees of a graph.
struct degree_statistics {
  double mean = 0, variance = 0;  ///< over nodes that have edges

  /// Returns the squared coefficient of variation: 0.08 for a random geometric graph, 1 or more for power
  /// laws.
  double spread() const { return mean > 0 ? variance / (mean * mean) : 0; }
  bool skewed() const { return spread() >= 1; }
  bool regular() const { return spread() < 0.02; }  ///< apart from the boundary of the mesh
  bool dense_mesh() const { return regular() && mean > 10; }
};

inline degree_statistics compute_degree_statistics(weighted_view const& g,
                                                   thread_team const& team = thread_team{}) {
  struct sums {
    std::uint64_t degrees = 0, squares = 0, nodes = 0;
  };
  id_ranges const ranges{g.nodes, 1u << 16};
  std::vector<sums> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    sums s;
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      std::uint64_t const d = g.degree(n);
      s.degrees += d, s.squares += d * d, s.nodes += d > 0;
    }
    found[r] = s;
  });
  sums all;
  for (auto const& s : found) all.degrees += s.degrees, all.squares += s.squares, all.nodes += s.nodes;
  degree_statistics degrees;
  if (all.nodes == 0) return degrees;
  auto const nodes = static_cast<double>(all.nodes);
  degrees.mean = static_cast<double>(all.degrees) / nodes;
  degrees.variance = static_cast<double>(all.squares) / nodes - rounded_product(degrees.mean, degrees.mean);
  return degrees;
}

/// Returns the fraction of neighbour pairs of a node that are adjacent themselves. It is a third or more in
/// triangle and tetrahedron meshes, and 0 in grids and trees. Samples fewer than 512 nodes.
/// O(sum of the degrees of their neighbours).
inline double closed_wedges(weighted_view const& g) {
  constexpr std::uint32_t max_edges = 64;  // nodes of larger degree are skipped
  std::uint64_t wedges = 0, closed = 0;
  std::vector<std::uint32_t> neighbours;
  auto const step = (std::max)(1u, g.nodes / 256);
  for (std::uint64_t n = step / 2; n < g.nodes; n += step) {
    auto const node = static_cast<std::uint32_t>(n);
    auto const degree = std::uint64_t{g.degree(node)};
    if (degree < 2 || degree > max_edges) continue;
    neighbours.assign(g.targets + g.offsets[node], g.targets + g.offsets[node + 1]);
    std::sort(neighbours.begin(), neighbours.end());
    wedges += degree * (degree - 1);
    for (auto const other : neighbours) {
      if (g.degree(other) > max_edges) continue;
      for (auto e = g.offsets[other]; e < g.offsets[other + 1]; ++e)
        closed += std::binary_search(neighbours.begin(), neighbours.end(), g.targets[e]);
    }
  }
  return wedges == 0 ? 0 : static_cast<double>(closed) / static_cast<double>(wedges);
}

/// Returns the neighbours' ids relative to the node's id, in increasing order.
inline std::vector<std::int64_t> steps_to_neighbours(weighted_view const& g, std::uint32_t n) {
  std::vector<std::int64_t> steps;
  for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) steps.push_back(std::int64_t{g.targets[e]} - n);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Returns true if the graph is a grid numbered row by row: for most nodes n, the relative ids of the
/// neighbours equal those of n + 1 or n + 2. Samples fewer than 512 nodes.
inline bool is_numbered_in_rows(weighted_view const& g) {
  std::uint32_t alike = 0, seen = 0;
  auto const step = (std::max)(1u, g.nodes / 256);
  for (std::uint64_t at = step / 2; at + 2 < g.nodes; at += step) {
    auto const n = static_cast<std::uint32_t>(at);
    if (g.degree(n) == 0 || g.degree(n) > 64) continue;
    auto const steps = steps_to_neighbours(g, n);
    ++seen;
    alike += steps == steps_to_neighbours(g, n + 1) || steps == steps_to_neighbours(g, n + 2);
  }
  return 2 * alike > seen;
}

/// Returns true if both node weights and edge weights are nearly uniform. Samples at most 2047 of each.
inline bool has_uniform_weights(weighted_view const& g) {
  auto const uniform = [](std::uint64_t count, auto const& weight) {
    double sum = 0, squares = 0, seen = 0;
    for (std::uint64_t i = 0; i < count; i += std::max<std::uint64_t>(1, count / 1024)) {
      auto const w = static_cast<double>(weight(static_cast<std::uint32_t>(i)));
      sum += w, squares += w * w, ++seen;
    }
    return squares * seen <= 1.1 * sum * sum;
  };
  return uniform(g.nodes, [&](std::uint32_t n) { return g.weight(n); }) &&
         uniform(g.directed_edges(), [&](std::uint32_t e) { return g.edge_weight(e); });
}

/// Returns true if a breadth-first search grows about as fast as in a random graph of these degrees: no part
/// of the graph is far from another. The search starts at the middle node. It must find half of all nodes in
/// at most 1.5 times the steps that a random graph takes. O(m) if it does, and much less in grids and meshes.
/// Newman, Strogatz, Watts, Physical Review E 64, 2001 (number of nodes at distance m).
inline bool grows_like_random_graph(weighted_view const& g, degree_statistics const& degrees) {
  double const growth =
      degrees.mean > 0 ? degrees.mean + degrees.variance / degrees.mean - 1 : 0;  // factor per step
  if (growth < 1.5) return false;  // paths, cycles, sparse trees
  std::uint32_t steps = 0;
  for (double reached = 1; reached < g.nodes; reached *= growth) ++steps;
  std::vector<bool> seen(g.nodes);
  std::vector<std::uint32_t> found{g.nodes / 2};
  seen[found.front()] = true;
  std::size_t next = 0;
  for (auto left = steps + steps / 2; left > 0 && found.size() <= g.nodes / 2; --left)
    for (auto const end = found.size(); next < end; ++next)
      for (auto e = g.offsets[found[next]]; e < g.offsets[found[next] + 1]; ++e)
        if (auto const n = g.targets[e]; !seen[n]) seen[n] = true, found.push_back(n);
  return found.size() > g.nodes / 2;
}

/// Returns true if few neighbours of a node are adjacent, and hubs or random edges connect everything to
/// everything. Clusters would then join nodes that belong apart.
inline bool lacks_locality(weighted_view const& g, degree_statistics const& degrees) {
  return closed_wedges(g) < 0.1 && (degrees.skewed() || grows_like_random_graph(g, degrees));
}

/// Returns true if nodes with less than a quarter of the mean degree hold half of the total weight, around a
/// dense core. If the graph also lacks locality, the core fills the parts, and a good cut runs through the
/// periphery. Borgatti, Everett, Social Networks 21(4), 2000 (core and periphery).
inline bool has_sparse_periphery(weighted_view const& g, degree_statistics const& degrees) {
  std::int64_t periphery = 0, total = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    total += g.weight(n);
    if (g.degree(n) < degrees.mean / 4) periphery += g.weight(n);
  }
  return periphery >= total - periphery;
}

/// Returns true if compact parts are likely to beat bisection: there are many parts, and each has enough
/// nodes to be compact.
inline bool suits_centres(weighted_view const& g, std::uint32_t parts) {
  return parts >= 16 && g.nodes / parts >= 200;
}

}  // namespace cleave::detail
