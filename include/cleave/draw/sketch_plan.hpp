// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/model/part_memory.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/plan.hpp"

namespace cleave::detail {

/// A plan good enough to draw, of any partition: also of one that no plan can be made of, because its parts
/// need each other or nodes have no part (those form one further stage at the end). Replicable nodes stay in
/// their own part. O(V + E).
template <std::unsigned_integral Index>
basic_plan<Index> sketch_plan(basic_dense<Index> const& g, partition const& p) {
  auto const home = [&](std::size_t n) { return (std::min)(index(p.of[n]), p.parts); };
  basic_plan<Index> out;
  out.stages.resize(p.parts);
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (home(n) == out.stages.size()) out.stages.emplace_back();
    out.stages[home(n)].nodes.push_back(static_cast<Index>(n));
  }
  std::vector<char> leaves(g.values());
  for (Index const v : g.outputs) leaves[v] = 1;
  std::vector<Index> seen(g.values(), none<Index>);
  for (std::uint32_t s = 0; s < out.stages.size(); ++s) {
    out.order.push_back(stage_id{s});
    for (Index const n : out.stages[s].nodes)
      for (Index const v : g.operands[n]) {
        if (std::cmp_equal(std::exchange(seen[v], static_cast<Index>(s)), s)) continue;
        Index const m = g.producer[v];
        bool const held = g.from[v] == source::state || g.from[v] == source::constant;
        if (held) {
          out.stages[s].state.push_back(v);
        } else if (m == none<Index>) {
          out.stages[s].inputs.push_back(v);
        } else if (home(m) != s && !is_replicable(g, m)) {
          out.stages[s].inputs.push_back(v);
          out.transfers.push_back({v, stage_id{home(m)}, stage_id{s}});
          leaves[v] = 1;
        }
      }
  }
  for (std::size_t n = 0; n < g.nodes(); ++n)
    for (Index const v : g.results[n])
      if (leaves[v]) out.stages[home(n)].outputs.push_back(v);
  return out;
}

}  // namespace cleave::detail
