// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/left_out.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_buckets.hpp"
#include "cleave/partition/kway/part_links.hpp"
#include "cleave/partition/kway/rebalance.hpp"

namespace cleave::detail {

/// Nodes for parts that have none, as far as there are nodes, each from a part that keeps one: those that
/// cost least. O(n + m) where a part weighs nothing, O(parts) otherwise.
template <class Level>
void fill_empty_parts(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed) {
  if (std::find(p.weight.begin(), p.weight.end(), 0) == p.weight.end()) return;
  std::vector<std::uint32_t> nodes_in(p.parts(), 0), empty;
  for (std::uint32_t n = 0; n < g.nodes; ++n) ++nodes_in[p.of[n]];
  for (std::uint32_t part = 0; part < p.parts(); ++part)
    if (nodes_in[part] == 0) empty.push_back(part);
  if (empty.empty()) return;
  move_buckets open(g.nodes);
  part_links links(p.parts());
  auto const gain_of = [&](std::uint32_t n) {
    links.count(g, p.of, n);
    return -links.to(p.of[n]);
  };
  for (std::uint32_t n = 0; n < g.nodes; ++n)
    if (nodes_in[p.of[n]] > 1 && (fixed.empty() || fixed[n] == free_node)) open.put(n, gain_of(n));
  for (auto const part : empty) {
    while (!open.empty()) {
      auto const n = open.pop();
      if (nodes_in[p.of[n]] <= 1 || g.weight(n) > p.limit[part]) continue;
      auto const gain = gain_of(n);
      if (!open.empty() && move_buckets::bucket_of(gain) < open.highest()) {
        open.put(n, gain);
        continue;
      }
      --nodes_in[p.of[n]];
      move_node(g, p, n, part);
      break;
    }
  }
}

/// Where parts are still over their limits, packs all nodes anew, the heaviest first to where there is most
/// room, if that breaks the limits less. For few heavy nodes, where balance leaves the cut no say.
template <class Level>
void pack_if_over(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed) {
  if (excess_weight(p) == 0) return;
  auto packed = p;
  std::fill(packed.weight.begin(), packed.weight.end(), 0);
  std::vector<std::uint32_t> nodes(g.nodes);
  for (std::uint32_t n = 0; n < g.nodes; ++n) nodes[n] = n;
  place_left_out(g, packed, fixed, nodes);
  auto const worst = [](level_parts const& parts) {
    std::int64_t over = 0;
    for (std::uint32_t part = 0; part < parts.parts(); ++part) over = (std::max)(over, -parts.room(part));
    return over;
  };
  if (worst(packed) < worst(p)) p = std::move(packed);
}

}  // namespace cleave::detail
