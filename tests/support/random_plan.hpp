// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/partition/units/part_cycles.hpp"
#include "support/random_graph.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns a random partition that can be planned: groups stay whole, and parts on a cycle are merged.
inline partition random_legal_partition(rng& r, snapshot_arrays const& g, std::uint32_t parts) {
  auto p = random_partition(r, g.nodes(), parts);
  bool const sliced = r.one_in(2);
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (sliced) p.of[n] = part_id{static_cast<std::uint32_t>(n * parts / g.nodes())};
    p.of[n] = p.of[g.group[n]];
  }
  return acyclic_parts(g, p, r.one_in(2) ? cycle_policy::merge : cycle_policy::move).parts;
}

/// Returns a random graph with a little of every feature.
inline snapshot_arrays random_rich_graph(rng& r, std::size_t nodes) {
  auto g = random_graph(r, {.nodes = nodes,
                            .most_operands = 3,
                            .reach = r.below(10),
                            .states = 2,
                            .replicable = 5,
                            .tied = 9,
                            .ordered = 8});
  for (std::uint32_t v = 0; v < g.values(); ++v)
    if (g.producer[v] != none<std::uint32_t> && r.one_in(6)) g.outputs.push_back(v);
  return g;
}

}  // namespace cleave::testing
