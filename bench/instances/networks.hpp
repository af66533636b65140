// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/graph/adjacency.hpp"
#include "meshes.hpp"

/// Networks of processors, and a tree.
namespace bench {

/// Numbers of so many bits, neighbours where they differ in one: halves share 2^(bits - 1) edges.
inline graph hypercube(std::uint32_t bits) {
  auto const nodes = std::uint32_t{1} << bits;
  graph_edges edges;
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (auto other = nodes / 2; other > 0; other /= 2)
      if ((n & other) == 0) edges.add(n, n | other);
  return adjacency_of_edges(nodes, edges);
}

/// Numbers of so many bits, each with those that a shift to the left and a new last bit make of it.
inline graph debruijn(std::uint32_t bits) {
  auto const nodes = std::uint32_t{1} << bits;
  graph_edges edges;
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (std::uint32_t bit = 0; bit < 2; ++bit) edges.add(n, (2 * n + bit) % nodes);
  return adjacency_of_edges(nodes, edges, cleave::repeated_edges::count_once);
}

/// A cube of nodes, each with the six next to it, the last ones with the first: a straight cut has
/// 2 side^2 edges.
inline graph torus3d(std::uint32_t side) {
  graph_edges edges;
  auto const nodes = side * side * side;
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (auto step = 1u; step < nodes; step *= side)
      edges.add(n, n / step % side + 1 < side ? n + step : n - step * (side - 1));
  return adjacency_of_edges(nodes, edges, cleave::repeated_edges::count_once);
}

/// A tree in which node n has the children 2n + 1 and 2n + 2.
inline graph binary_tree(std::uint32_t nodes) {
  graph_edges edges;
  for (std::uint32_t n = 1; n < nodes; ++n) edges.add((n - 1) / 2, n);
  return adjacency_of_edges(nodes, edges);
}

}  // namespace bench
