// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/left_out.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Makes the parts of a level those of `below`, the level it stands on: each node gets the part of its
/// cluster, and nodes that have none go where there is room. O(nodes).
template <class Level>
void project(Level const& below, level_parts& p, std::vector<std::uint32_t> const& fixed,
             raw_array<std::uint32_t> const& cluster_of, thread_team const& team) {
  id_ranges const ranges{below.nodes, 1u << 16};
  std::vector<std::vector<std::uint32_t>> alone(ranges.count());
  std::vector<std::uint32_t> of(below.nodes);
  team.share(ranges.count(), [&](std::size_t r) {
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
      if (cluster_of[n] == no_cluster)
        alone[r].push_back(n);
      else
        of[n] = p.of[cluster_of[n]];
  });
  p.of = std::move(of);
  std::vector<std::uint32_t> left_out;
  for (auto const& nodes : alone) left_out.insert(left_out.end(), nodes.begin(), nodes.end());
  place_left_out(below, p, fixed, left_out);
}

}  // namespace cleave::detail
