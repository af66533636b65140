// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"

namespace cleave::detail {

/// Puts nodes without edges where they must be or where there is most room, the heaviest first.
template <class Level>
void place_left_out(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed,
                    std::vector<std::uint32_t> const& nodes) {
  if (nodes.empty()) return;
  std::vector<std::pair<std::int64_t, std::uint32_t>> heaviest_first;
  for (auto const n : nodes) {
    if (!fixed.empty() && fixed[n] != free_node) {
      p.of[n] = fixed[n];
      p.weight[fixed[n]] += g.weight(n);
    } else {
      heaviest_first.emplace_back(-static_cast<std::int64_t>(g.weight(n)), n);
    }
  }
  std::sort(heaviest_first.begin(), heaviest_first.end());
  std::vector<std::pair<std::int64_t, std::uint32_t>> room;
  for (std::uint32_t part = 0; part < p.parts(); ++part) room.emplace_back(p.room(part), ~part);
  std::make_heap(room.begin(), room.end());
  for (auto const& [weight, n] : heaviest_first) {
    std::pop_heap(room.begin(), room.end());
    auto const part = ~room.back().second;
    p.of[n] = part;
    p.weight[part] -= weight;
    room.back().first += weight;
    std::push_heap(room.begin(), room.end());
  }
}

}  // namespace cleave::detail
