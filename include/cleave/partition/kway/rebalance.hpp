// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/part_links.hpp"

namespace cleave::detail {

inline std::int64_t excess_weight(level_parts const& p) {
  std::int64_t sum = 0;
  for (std::uint32_t part = 0; part < p.parts(); ++part)
    sum += std::max<std::int64_t>(0, p.weight[part] - p.limit[part]);
  return sum;
}

/// The part with most room.
inline std::uint32_t roomiest(level_parts const& p) {
  std::uint32_t best = 0;
  for (std::uint32_t part = 1; part < p.parts(); ++part)
    if (p.room(part) > p.room(best)) best = part;
  return best;
}

/// Moves nodes out of parts that break their limits, those first whose leaving costs least, to parts that
/// have room for them: as far as the weights of nodes let it. Where all nodes weigh 1 and the limits hold all
/// of them, no part is over its limit afterwards. Returns by how much the cut fell, which is seldom positive.
template <class Level>
std::int64_t rebalance(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed,
                       active_nodes& active) {
  if (excess_weight(p) == 0) return 0;
  std::int64_t gained = 0;
  part_links links(p.parts());
  move_buckets open(g.nodes);
  auto const free_to_go = [&](std::uint32_t n) { return fixed.empty() || fixed[n] == free_node; };
  auto const gain_of = [&](std::uint32_t n, std::uint32_t& to) {
    links.count(g, p.of, n);
    auto const own = p.of[n];
    to = links.best_target(p, own, g.weight(n));
    if (to == free_node) {
      auto const away = roomiest(p);
      if (away != own && p.room(away) >= g.weight(n)) to = away;
    }
    return (to == free_node ? 0 : links.to(to)) - links.to(own);
  };
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    std::uint32_t to = free_node;
    if (p.room(p.of[n]) < 0 && free_to_go(n) && g.weight(n) > 0) open.put(n, gain_of(n, to));
  }
  while (!open.empty()) {
    auto const n = open.pop();
    if (p.room(p.of[n]) >= 0) continue;
    std::uint32_t to = free_node;
    auto const gain = gain_of(n, to);
    if (to == free_node) continue;
    if (!open.empty() && move_buckets::bucket_of(gain) < open.highest()) {
      open.put(n, gain);
      continue;
    }
    move_node(g, p, n, to);
    gained += gain;
    active.add(n);
    for (auto arc = g.first[n]; arc < g.first[n + 1]; ++arc) active.add(g.head[arc]);
  }
  return gained;
}

}  // namespace cleave::detail
