// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/left_out.hpp"
#include "cleave/partition/kway/level_graph.hpp"

namespace cleave {

/// Parts filled one after the other, with the nodes of most edges first; nodes without edges last, where
/// there is room. Where few nodes have most of the edges, as in social networks, the parts that are full of
/// them hold most edges inside, and no even division comes near that.
template <class Level>
level_parts degree_parts(Level const& g, std::vector<std::int64_t> const& limit,
                         std::vector<std::uint32_t> const& fixed) {
  level_parts p;
  p.limit = limit;
  p.of.assign(g.nodes, 0);
  p.weight.assign(limit.size(), 0);
  std::vector<std::pair<std::int64_t, std::uint32_t>> heaviest_first;
  std::vector<std::uint32_t> left_out;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    std::int64_t links = 0;
    for (auto a = g.first[n], stop = g.first[n + 1]; a < stop; ++a) links += g.arc_weight(a);
    if (!fixed.empty() && fixed[n] != free_node)
      p.of[n] = fixed[n], p.weight[fixed[n]] += g.weight(n);
    else if (links == 0)
      left_out.push_back(n);
    else
      heaviest_first.emplace_back(-links, n);
  }
  std::sort(heaviest_first.begin(), heaviest_first.end());
  std::uint32_t part = 0;
  for (auto const& [links, n] : heaviest_first) {
    auto const weight = static_cast<std::int64_t>(g.weight(n));
    while (part + 1 < p.parts() && p.room(part) < weight) ++part;
    p.of[n] = part;
    p.weight[part] += weight;
  }
  place_left_out(g, p, fixed, left_out);
  return p;
}

}  // namespace cleave
