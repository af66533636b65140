// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"
#include "meshes.hpp"
#include "steady_math.hpp"

/// Graphs of chance, each the same for a seed on every machine.
namespace bench {

using cleave::repeated_edges;

/// Numbers nodes anew, so that no algorithm finds the structure in the numbers.
inline void scramble(std::uint32_t nodes, graph_edges& edges, std::uint64_t seed) {
  std::vector<std::uint32_t> name(nodes);
  std::iota(name.begin(), name.end(), 0u);
  dice d(seed ^ 77);
  for (auto i = nodes; i > 1; --i) std::swap(name[i - 1], name[d.below(i)]);
  for (std::size_t e = 0; e < edges.size(); ++e)
    edges.from[e] = name[edges.from[e]], edges.to[e] = name[edges.to[e]];
}

/// Points in a square or a cube, neighbours where they are nearer than `radius`; numbers follow cells.
inline graph random_geometric(std::uint32_t nodes, std::uint64_t seed, int dimensions, double radius) {
  struct point {
    std::array<double, 3> at;
    std::uint64_t cell;
    std::uint32_t drawn;
  };
  dice d(seed);
  auto const cells = static_cast<std::uint64_t>(std::max(1.0, 1 / radius));
  auto const cell_of = [&](double x) { return static_cast<std::uint64_t>(x * static_cast<double>(cells)); };
  std::vector<point> points(nodes);
  for (auto& p : points) {
    auto& [x, y, z] = p.at;
    x = d.unit(), y = d.unit(), z = dimensions == 3 ? d.unit() : 0;
    p.cell = (cell_of(z) * cells + cell_of(y)) * cells + cell_of(x);
  }
  for (std::uint32_t i = 0; i < nodes; ++i) points[i].drawn = i;
  std::sort(points.begin(), points.end(), [](auto const& a, auto const& b) {
    return std::pair(a.cell, a.drawn) < std::pair(b.cell, b.drawn);
  });
  std::vector<std::uint32_t> first((dimensions == 3 ? cells * cells * cells : cells * cells) + 1);
  for (auto const& p : points) ++first[p.cell + 1];
  for (std::size_t i = 0; i + 1 < first.size(); ++i) first[i + 1] += first[i];

  graph_edges edges;
  double const reach = radius * radius;
  auto const near = [&](point const& a, point const& b) {
    double square = 0;
    for (int i = 0; i < 3; ++i) {
      double const along = a.at[static_cast<std::size_t>(i)] - b.at[static_cast<std::size_t>(i)];
      double const product = along * along;
      square = square + product;
    }
    return square <= reach;
  };
  auto const around = [&](double x, auto visit) {
    auto const c = cell_of(x);
    for (auto at = c == 0 ? 0 : c - 1; at <= std::min(c + 1, cells - 1); ++at) visit(at);
  };
  for (std::uint32_t i = 0; i < nodes; ++i) {
    auto const search = [&](std::uint64_t z) {
      around(points[i].at[1], [&](std::uint64_t y) {
        around(points[i].at[0], [&](std::uint64_t x) {
          auto const cell = (z * cells + y) * cells + x;
          for (auto j = std::max(first[cell], i + 1); j < first[cell + 1]; ++j)
            if (near(points[i], points[j])) edges.add(i, j);
        });
      });
    };
    dimensions == 3 ? around(points[i].at[2], search) : search(0);
  }
  return adjacency_of_edges(nodes, edges);
}

/// Just connected, as a rule.
inline graph rgg2d(std::uint32_t nodes, std::uint64_t seed) {
  double const n = nodes, share = natural_log(n) / n;
  return random_geometric(nodes, seed, 2, 0.55 * std::sqrt(share));
}

inline graph rgg3d(std::uint32_t nodes, std::uint64_t seed, double degree) {
  double const pi = 3.14159265358979323846, volume = degree * 3 / (4 * pi * nodes);
  return random_geometric(nodes, seed, 3, power(volume, 1.0 / 3));
}

/// R-MAT (Chakrabarti, Zhan, Faloutsos, SDM 2004) with 0.57, 0.19, 0.19, 0.05; isolated nodes stay.
inline graph rmat(std::uint32_t scale, std::uint32_t degree, std::uint64_t seed) {
  auto const nodes = std::uint32_t{1} << scale;
  dice d(seed);
  graph_edges edges;
  for (std::uint64_t e = std::uint64_t{degree} * nodes; e > 0; --e) {
    std::uint32_t a = 0, b = 0;
    for (std::uint32_t bit = 0; bit < scale; ++bit) {
      double const x = d.unit();
      a = a << 1 | (x >= 0.76 ? 1u : 0u);
      b = b << 1 | ((x >= 0.57 && x < 0.76) || x >= 0.95 ? 1u : 0u);
    }
    if (a != b) edges.add(a, b);
  }
  scramble(nodes, edges, seed);
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

/// Each node is joined to `links` ends of earlier edges (Barabási, Albert, Science 1999).
inline graph ba(std::uint32_t nodes, std::uint32_t links, std::uint64_t seed) {
  dice d(seed);
  graph_edges edges;
  std::vector<std::uint32_t> ends;
  for (std::uint32_t n = 1; n < nodes; ++n)
    for (std::uint32_t i = 0; i < links; ++i) {
      auto to = ends.empty() ? 0 : ends[d.below(ends.size())];
      if (to == n) to = n - 1;
      edges.add(n, to);
      ends.push_back(n), ends.push_back(to);
    }
  scramble(nodes, edges, seed);
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

/// Junctions in a grid of which roads are missing, each road with up to four bends: about `nodes` in all.
inline graph road(std::uint32_t nodes, std::uint64_t seed) {
  dice d(seed);
  auto const side = static_cast<std::uint32_t>(std::sqrt(nodes / 3.4) + 1);
  auto next = side * side;
  graph_edges edges;
  auto const build = [&](std::uint32_t from, std::uint32_t to) {
    auto const bends = d.below(4) == 0 ? d.below(5) : d.below(3);
    for (std::uint32_t i = 0; i < bends; ++i) {
      edges.add(from, next);
      from = next++;
    }
    edges.add(from, to);
  };
  for (std::uint32_t y = 0; y < side; ++y)
    for (std::uint32_t x = 0; x < side; ++x) {
      auto const n = y * side + x;
      if (x + 1 < side && (d.unit() < 0.62 || y % 64 == 0)) build(n, n + 1);
      if (y + 1 < side && d.unit() < 0.80) build(n, n + side);
    }
  return adjacency_of_edges(next, edges, repeated_edges::count_once);
}

/// Gives nodes about `degree` neighbours anywhere.
inline void add_anywhere(graph_edges& edges, dice& d, std::uint32_t nodes, double degree) {
  for (auto e = static_cast<std::uint64_t>(nodes * degree / 2); e > 0; --e) {
    auto const a = d.below(nodes), b = d.below(nodes);
    edges.add(a, b);
  }
}

/// Edges between any two nodes (Erdős, Rényi, 1960).
inline graph er(std::uint32_t nodes, double degree, std::uint64_t seed) {
  dice d(seed);
  graph_edges edges;
  add_anywhere(edges, d, nodes, degree);
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

/// A ring, each node with the `reach` next ones, of which a share leads anywhere (Watts, Strogatz, Nature
/// 1998).
inline graph ws(std::uint32_t nodes, std::uint32_t reach, double anywhere, std::uint64_t seed) {
  dice d(seed);
  graph_edges edges;
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (std::uint32_t step = 1; step <= reach; ++step)
      edges.add(n, d.unit() < anywhere ? d.below(nodes) : (n + step) % nodes);
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

/// Blocks of alike size, each node with about `inside` neighbours in its block and `outside` anywhere.
inline graph sbm(std::uint32_t nodes, std::uint32_t blocks, double inside, double outside,
                 std::uint64_t seed) {
  dice d(seed);
  auto const size = nodes / blocks;
  nodes = size * blocks;
  graph_edges edges;
  for (auto e = static_cast<std::uint64_t>(nodes * inside / 2); e > 0; --e) {
    auto const block = d.below(blocks) * size;
    auto const a = block + d.below(size), b = block + d.below(size);
    edges.add(a, b);
  }
  add_anywhere(edges, d, nodes, outside);
  scramble(nodes, edges, seed);
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

/// Nodes on a ring, of weights by a power law, neighbours where they are near for their weights (geometric
/// inhomogeneous: Bringmann, Keusch, Lengler, TCS 2019): degrees as in hyperbolic graphs, and as local.
inline graph rhyp(std::uint32_t nodes, double degree, std::uint64_t seed) {
  dice d(seed);
  double const n = nodes;
  std::vector<double> weight(nodes), place(nodes);
  double total = 0;
  for (std::uint32_t i = 0; i < nodes; ++i) {
    weight[i] = std::min(power(1 - d.unit(), -1 / 1.8), n / 64);
    total = total + weight[i];
    place[i] = d.unit();
  }
  std::sort(place.begin(), place.end());
  double const mean = total / n;
  double const scale = degree / (2 * mean * mean);
  std::vector<std::vector<std::uint32_t>> layers;  // of nodes whose weight is in [2^l, 2^(l + 1))
  auto const layer_of = [&](std::uint32_t i) {
    return static_cast<std::size_t>(std::max(0, cleave::detail::binary_exponent(weight[i])));
  };
  for (std::uint32_t i = 0; i < nodes; ++i) {
    if (layer_of(i) >= layers.size()) layers.resize(layer_of(i) + 1);
    layers[layer_of(i)].push_back(i);
  }
  graph_edges edges;
  for (std::uint32_t i = 0; i < nodes; ++i)
    for (std::size_t l = 0; l <= layer_of(i); ++l) {
      auto const& layer = layers[l];
      double const own = scale * weight[i];
      double const reach = own * cleave::detail::power_of_two(static_cast<int>(l) + 1) / n;
      auto const scan = [&](double low, double high) {
        auto at = std::lower_bound(layer.begin(), layer.end(), low,
                                   [&](std::uint32_t a, double x) { return place[a] < x; });
        for (; at != layer.end() && place[*at] <= high; ++at) {
          auto const j = *at;
          if (j == i || (l == layer_of(i) && j < i)) continue;
          double const straight = cleave::magnitude(place[i] - place[j]);
          double const distance = std::min(straight, 1 - straight);
          if (distance * n <= own * weight[j]) edges.add(i, j);
        }
      };
      if (reach >= 0.5) {
        scan(0, 1);
        continue;
      }
      scan(std::max(0.0, place[i] - reach), std::min(1.0, place[i] + reach));
      if (place[i] < reach) scan(1 + place[i] - reach, 1);
      if (place[i] + reach > 1) scan(0, place[i] + reach - 1);
    }
  return adjacency_of_edges(nodes, edges, repeated_edges::count_once);
}

}  // namespace bench
