// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/graph/adjacency_fault.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/flat_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// `check_adjacency` on several threads, for graphs without weights; on one for others. Returns how many arcs
/// lead from a node to itself. \throws adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
std::size_t check_arrays(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, thread_team const& team) {
  auto const all = g.nodes();
  if (!g.node_weight.empty() || !g.edge_weight.empty() || all == 0 || all >= no_cluster ||
      static_cast<std::uint64_t>(g.offsets[0]) != 0 ||
      static_cast<std::uint64_t>(g.offsets[all]) != g.arcs()) {
    check_adjacency(g);
    return count_loops(g);
  }
  struct findings {
    arc_balance balance;
    std::size_t loops = 0;
    bool sound = true;
  };
  id_ranges const ranges{static_cast<std::uint32_t>(all), 1u << 15};
  std::vector<findings> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    findings f;
    for (std::size_t n = ranges.begin(r); n < ranges.end(r) && f.sound; ++n) {
      auto const begin = static_cast<std::uint64_t>(g.offsets[n]);
      auto const end = static_cast<std::uint64_t>(g.offsets[n + 1]);
      f.sound = begin <= end && end <= g.arcs();
      for (auto arc = begin; f.sound && arc < end; ++arc) {
        auto const to = static_cast<std::uint64_t>(g.targets[arc]);
        if (to >= all) f.sound = false;
        f.loops += to == n;
        f.balance.add(n, to, 1);
      }
    }
    found[r] = f;
  });
  findings sum;
  for (auto const& f : found) {
    sum.balance.add(f.balance);
    sum.loops += f.loops;
    sum.sound &= f.sound;
  }
  if (!sum.sound || !sum.balance.even()) check_adjacency(g);  // which says where
  return sum.loops;
}

}  // namespace cleave::detail
