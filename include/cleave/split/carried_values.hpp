// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::inline v0_2 {

/// A value that a stage keeps for its next run: its output `present` becomes its input `past`.
template <std::unsigned_integral Index>
struct basic_carried_value {
  stage_id stage;
  Index past, present;

  bool operator==(basic_carried_value const&) const = default;
};

using carried_value = basic_carried_value<std::uint32_t>;

/// Returns the values that stages keep for their next run, in the order of the inputs of `g`, without those
/// that no stage reads or makes. O(V + E).
template <std::unsigned_integral Index>
std::vector<basic_carried_value<Index>> carried_values(basic_snapshot_arrays<Index> const& g,
                                                       basic_plan<Index> const& p) {
  std::vector<stage_id> stage_of(g.nodes());
  std::vector<char> is_placed(g.nodes());
  for (std::size_t s = 0; s < p.stages.size(); ++s)
    for (Index const n : p.stages[s].nodes)
      if (!detail::is_replicable(g, n))
        stage_of[n] = stage_id{static_cast<std::uint32_t>(s)}, is_placed[n] = 1;
  std::vector<basic_carried_value<Index>> made;
  for (Index const v : g.inputs) {
    if (v >= g.carried.size() || g.carried[v] == none<Index>) continue;
    Index const present = g.carried[v];
    std::vector<Index> nodes(g.users[v].begin(), g.users[v].end());
    if (g.producer[present] != none<Index>) nodes.push_back(g.producer[present]);
    for (Index const n : nodes)
      if (is_placed[n]) {
        made.push_back({stage_of[n], v, present});
        break;
      }
  }
  return made;
}

}  // namespace cleave
