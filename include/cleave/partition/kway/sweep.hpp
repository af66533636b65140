// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_gains.hpp"
#include "cleave/partition/kway/part_links.hpp"

namespace cleave::detail {

/// Goes through the active nodes in rounds and moves each to the part that it is tied to most, where that
/// lessens the cut or, at the same cut, evens out the parts. Returns by how much the cut fell. O(rounds *
/// arcs of active nodes).
template <class Level>
std::int64_t sweep_boundary(Level const& g, level_parts& p, active_nodes& active, move_gains<Level>& gains,
                            std::uint32_t rounds) {
  part_links links(p.parts());
  std::int64_t gained = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::size_t moved = 0;
    gains.count(active);
    for (std::size_t at = 0; at < active.list.size(); ++at) {
      auto const n = active.list[at];
      if (gains.is_fixed(n) || (gains.knows(active, at) && gains.of(at) < 0)) continue;
      auto const own = p.of[n];
      links.count(g, p.of, n);
      auto const w = g.weight(n);
      auto const to = links.best_target(p, own, w);
      if (to == free_node) continue;
      auto const gain = links.to(to) - links.to(own);
      if (gain < 0 || (gain == 0 && p.room(to) - w <= p.room(own))) continue;
      move_node(g, p, n, to);
      gained += gain;
      ++moved;
      active.touch(n);
      for (auto arc = g.first[n], stop = g.first[n + 1]; arc < stop; ++arc) active.touch(g.head[arc]);
    }
    if (moved * 200 <= active.list.size()) break;
  }
  return gained;
}

}  // namespace cleave::detail
