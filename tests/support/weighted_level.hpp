// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// A level of a k-way partition that owns its arrays.
struct weighted_level {
  std::vector<std::uint32_t> offsets{0}, targets;
  std::vector<std::int64_t> node_weight, edge_weight;

  weighted_view view() const {
    return {static_cast<std::uint32_t>(node_weight.size()), offsets.data(), targets.data(),
            node_weight.data(), edge_weight.data()};
  }
  std::int64_t cut(std::vector<std::uint32_t> const& of) const {
    std::int64_t twice = 0;
    for (std::uint32_t n = 0; n < node_weight.size(); ++n)
      for (auto a = offsets[n]; a < offsets[n + 1]; ++a)
        twice += of[n] != of[targets[a]] ? edge_weight[a] : 0;
    return twice / 2;
  }
};

/// Returns a grid strip `rows` nodes high with random weights from 1 to `most`. Some edges are missing and
/// some extra ones are added.
inline weighted_level random_strip(rng& r, std::size_t nodes, std::size_t rows, std::size_t most) {
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> row(nodes);
  auto const join = [&](std::size_t u, std::size_t v) {
    if (u == v || u >= nodes || v >= nodes) return;
    auto const weight = static_cast<std::int64_t>(1 + r.below(most));
    row[u].emplace_back(v, weight), row[v].emplace_back(u, weight);
  };
  for (std::size_t n = 0; n < nodes; ++n) {
    if (!r.one_in(10)) join(n, n + rows);
    if ((n + 1) % rows != 0 && !r.one_in(10)) join(n, n + 1);
    if (r.one_in(20)) join(n, r.below(nodes));
  }
  weighted_level g;
  for (auto const& list : row) {
    for (auto const& [to, weight] : list) g.targets.push_back(to), g.edge_weight.push_back(weight);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    g.node_weight.push_back(static_cast<std::int64_t>(1 + r.below(most)));
  }
  return g;
}

/// Returns a graph with nodes and edges of weight 1.
inline weighted_level level_of(std::size_t nodes,
                               std::vector<std::pair<std::uint32_t, std::uint32_t>> const& edges) {
  std::vector<std::vector<std::uint32_t>> row(nodes);
  for (auto const& [a, b] : edges) row[a].push_back(b), row[b].push_back(a);
  weighted_level g;
  for (auto const& list : row) {
    g.targets.insert(g.targets.end(), list.begin(), list.end());
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  g.node_weight.assign(nodes, 1), g.edge_weight.assign(g.targets.size(), 1);
  return g;
}

/// Returns the same graph with its nodes in random order.
inline weighted_level shuffled(rng& r, weighted_level const& g) {
  std::vector<std::uint32_t> node(g.node_weight.size()), name(node.size());
  for (std::uint32_t n = 0; n < node.size(); ++n) node[n] = n;
  r.shuffle(node);
  for (std::uint32_t n = 0; n < node.size(); ++n) name[node[n]] = n;
  weighted_level s;
  for (auto const n : node) {
    for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a) {
      s.targets.push_back(name[g.targets[a]]);
      s.edge_weight.push_back(g.edge_weight[a]);
    }
    s.offsets.push_back(static_cast<std::uint32_t>(s.targets.size()));
    s.node_weight.push_back(g.node_weight[n]);
  }
  return s;
}

/// Returns disjoint grid squares, in which each cell has a diagonal edge.
inline weighted_level triangulated_squares(std::size_t side, std::size_t squares = 1) {
  weighted_level g;
  for (std::size_t i = 0; i < squares * side * side; ++i) {
    auto const n = i % (side * side), x = n % side, y = n / side;
    auto const to = [&](std::size_t other) { g.targets.push_back(static_cast<std::uint32_t>(other)); };
    if (y > 0 && x > 0) to(i - side - 1);
    if (y > 0) to(i - side);
    if (x > 0) to(i - 1);
    if (x + 1 < side) to(i + 1);
    if (y + 1 < side) to(i + side);
    if (x + 1 < side && y + 1 < side) to(i + side + 1);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    g.node_weight.push_back(1);
  }
  g.edge_weight.assign(g.targets.size(), 1);
  return g;
}

/// Returns true if two levels have the same rows and weights; the widths of their arrays may differ.
inline bool alike(level_graph const& a, level_graph const& b) {
  if (a.nodes != b.nodes) return false;
  auto const x = a.view(), y = b.view();
  for (std::size_t n = 0; n <= x.nodes; ++n)
    if (x.offsets[n] != y.offsets[n]) return false;
  for (std::uint32_t n = 0; n < x.nodes; ++n)
    if (x.weight(n) != y.weight(n)) return false;
  for (std::uint64_t e = 0; e < x.directed_edges(); ++e)
    if (x.targets[e] != y.targets[e] || x.edge_weight(e) != y.edge_weight(e)) return false;
  return true;
}

/// Assigns each node to a random part. The limit of a part exceeds its weight by less than 20.
inline partitioned_level random_parts(rng& r, weighted_level const& g, std::uint32_t k) {
  partitioned_level p;
  p.weight.assign(k, 0);
  for (auto const weight : g.node_weight) {
    p.of.push_back(static_cast<std::uint32_t>(r.below(k)));
    p.weight[p.of.back()] += weight;
  }
  for (auto const weight : p.weight) p.limit.push_back(weight + static_cast<std::int64_t>(r.below(20)));
  return p;
}

inline std::vector<std::int64_t> weights_of(weighted_level const& g, partitioned_level const& p) {
  std::vector<std::int64_t> sums(p.parts());
  for (std::size_t n = 0; n < p.of.size(); ++n) sums[p.of[n]] += g.node_weight[n];
  return sums;
}

}  // namespace cleave::testing
