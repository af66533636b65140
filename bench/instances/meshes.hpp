// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/graph/adjacency.hpp"

/// Regular grids; a cut along straight lines is known of each.
namespace bench {

using graph = cleave::adjacency<std::uint32_t>;
using graph_edges = cleave::edge_pairs<std::uint32_t>;

/// Whether each square of a grid has a diagonal, one way or the other by turns.
enum class diagonals : std::uint8_t { none, alternating };

inline graph grid2d(std::uint32_t width, std::uint32_t height, diagonals d = diagonals::none) {
  graph_edges edges;
  for (std::uint32_t y = 0; y < height; ++y)
    for (std::uint32_t x = 0; x < width; ++x) {
      auto const n = y * width + x;
      if (x + 1 < width) edges.add(n, n + 1);
      if (y + 1 < height) edges.add(n, n + width);
      if (d == diagonals::none || x + 1 == width || y + 1 == height) continue;
      ((x ^ y) & 1) != 0 ? edges.add(n, n + width + 1) : edges.add(n + 1, n + width);
    }
  return adjacency_of_edges(std::size_t{width} * height, edges);
}

/// Which nodes of a grid in space are neighbours: those that share a face of their cubes, or also an edge or
/// a corner.
enum class stencil : std::uint8_t { faces, corners };

inline graph grid3d(std::uint32_t width, std::uint32_t height, std::uint32_t depth,
                    stencil s = stencil::faces) {
  graph_edges edges;
  auto const inside = [](std::uint32_t at, int step, std::uint32_t size) {
    return step < 0 ? at > 0 : step == 0 || at + 1 < size;
  };
  for (std::uint32_t z = 0; z < depth; ++z)
    for (std::uint32_t y = 0; y < height; ++y)
      for (std::uint32_t x = 0; x < width; ++x)
        for (int dz = 0; dz <= 1; ++dz)
          for (int dy = -1; dy <= 1; ++dy)
            for (int dx = -1; dx <= 1; ++dx) {
              bool const ahead = dz > 0 || dy > 0 || (dy == 0 && dx > 0);
              bool const face = (dx != 0) + (dy != 0) + (dz != 0) == 1;
              if (!ahead || (dz == 0 && dy < 0) || (s == stencil::faces && !face)) continue;
              if (!inside(x, dx, width) || !inside(y, dy, height) || !inside(z, dz, depth)) continue;
              auto const n = (z * height + y) * width + x;
              auto const to =
                  ((z + static_cast<std::uint32_t>(dz)) * height + y + static_cast<std::uint32_t>(dy)) *
                      width +
                  x + static_cast<std::uint32_t>(dx);
              edges.add(n, to);
            }
  return adjacency_of_edges(std::size_t{width} * height * depth, edges);
}

}  // namespace bench
