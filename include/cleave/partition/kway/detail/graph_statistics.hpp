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

/// How alike the degrees of a graph are.
struct degree_statistics {
  double mean = 0, variance = 0;  ///< of nodes that have edges

  /// Of the standard deviation to the mean, squared: 0.08 for a random geometric graph, from 1 up for power
  /// laws.
  double spread() const { return mean > 0 ? variance / (mean * mean) : 0; }
  bool skewed() const { return spread() >= 1; }
  bool regular() const { return spread() < 0.02; }  ///< but for a rim
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

/// Of the pairs of neighbours of a node, how many are neighbours themselves: from a third up in meshes of
/// triangles or tetrahedra, and none in grids and trees. From 256 nodes at most. O(sum of the degrees of
/// their neighbours).
inline double closed_wedges(weighted_view const& g) {
  constexpr std::uint32_t max_edges = 64;  // of nodes that are looked at
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

/// Where the neighbours of a node are, counted from it, in rising order.
inline std::vector<std::int64_t> steps_to_neighbours(weighted_view const& g, std::uint32_t n) {
  std::vector<std::int64_t> steps;
  for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) steps.push_back(std::int64_t{g.targets[e]} - n);
  std::sort(steps.begin(), steps.end());
  return steps;
}

/// Whether most nodes are as far from their neighbours, in number, as the next node is from its own, or the
/// one after that: they are lattices numbered row by row. Looks at 256 nodes at most.
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

/// Whether weights of nodes are nearly uniform, and those of edges. Looks at 2047 of each at most.
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

/// Whether a breadth-first search from the middle node finds half of all nodes in at most half as many steps
/// again as in a random graph of these degrees: no part of the graph is far from another. O(arcs) then, and
/// far less in grids and meshes. Newman, Strogatz, Watts, Physical Review E 64, 2001 (how many are m steps
/// off).
inline bool grows_like_random_graph(weighted_view const& g, degree_statistics const& degrees) {
  double const growth =
      degrees.mean > 0 ? degrees.mean + degrees.variance / degrees.mean - 1 : 0;  // of each step
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

/// Whether few neighbours of a node are neighbours themselves, and hubs or chance join everything to
/// everything: then clusters would join what belongs apart.
inline bool lacks_locality(weighted_view const& g, degree_statistics const& degrees) {
  return closed_wedges(g) < 0.1 && (degrees.skewed() || grows_like_random_graph(g, degrees));
}

/// Whether nodes of a degree below a quarter of the mean one weigh half of all, around a dense core: then
/// parts of a graph without locality fill up with the core, and the periphery is what is cut. Borgatti,
/// Everett, Social Networks 21(4), 2000 (core and periphery).
inline bool has_sparse_periphery(weighted_view const& g, degree_statistics const& degrees) {
  std::int64_t periphery = 0, total = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    total += g.weight(n);
    if (g.degree(n) < degrees.mean / 4) periphery += g.weight(n);
  }
  return periphery >= total - periphery;
}

/// Whether there are enough parts for round ones to pack better than bricks, and enough nodes in each to be
/// round.
inline bool suits_centres(weighted_view const& g, std::uint32_t parts) {
  return parts >= 16 && g.nodes / parts >= 200;
}

}  // namespace cleave::detail
