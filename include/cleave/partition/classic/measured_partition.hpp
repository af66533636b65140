// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// A partition of an undirected graph with its quality, in the units of the graph (exact below 2^53).
struct measured_partition : partition {
  double cut = 0;                      ///< total weight of the edges between parts
  std::vector<double> part_weights{};  ///< total node weight of each part
  double imbalance = 0;                ///< heaviest part / equal share - 1; integer shares are rounded up
};

/// Returns `p` with its cut, part weights and imbalance. O(n + m).
/// \pre `p` is a partition of `g` in which each node has a part.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition measured(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, partition p) {
  measured_partition m;
  static_cast<partition&>(m) = std::move(p);
  m.part_weights.resize(m.parts);
  double total = 0;
  for (std::size_t n = 0, arc = 0; n < g.nodes(); ++n) {
    m.part_weights[index(m.of[n])] += static_cast<double>(g.weight(n));
    total += static_cast<double>(g.weight(n));
    for (auto const to : g.neighbours(n)) {
      if (auto const other = static_cast<std::size_t>(to); other > n && m.of[other] != m.of[n])
        m.cut += static_cast<double>(g.weight_of_edge(arc));
      ++arc;
    }
  }
  double share = m.parts > 0 ? total / m.parts : 0;
  if (std::integral<NodeWeight> && share < 0x1p52 &&
      share > static_cast<double>(static_cast<std::int64_t>(share)))
    share = static_cast<double>(static_cast<std::int64_t>(share) + 1);
  if (share > 0) m.imbalance = *std::ranges::max_element(m.part_weights) / share - 1;
  return m;
}

/// Converts an array of part numbers below `k` into a partition. O(n).
inline partition partition_of(std::vector<std::uint32_t> const& of, std::uint32_t k) {
  partition p{std::vector<part_id>(of.size()), k};
  for (std::size_t n = 0; n < of.size(); ++n) p.of[n] = part_id{of[n]};
  return p;
}
}  // namespace cleave
