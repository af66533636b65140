// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/acyclic/level.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// The units of a random graph, with limits that every partition meets.
struct random_level {
  snapshot_arrays graph;
  unit_graph<std::uint32_t> units;
  acyclic_level<std::uint32_t> level;
  acyclic_limits limits;

  random_level(rng& r, random_shape const& shape, std::uint32_t parts)
      : graph(random_graph(r, shape)), units(units_of(graph)) {
    auto const costs = costs_of(graph, units, parts, {});
    level.predecessors = units.predecessors;
    level.successors = units.successors;
    level.touching = costs.touching;
    level.touched = costs.touched;
    level.price = {costs.transfer};
    level.weight = costs.weight;
    level.memory = memory_of<std::uint32_t>(graph, units);
    limits.speed_of.assign(parts, 0);
    limits.link_of.assign(parts, 0);
    limits.most.assign(parts, unreachable_load);
    limits.may_be_empty = true;
  }

  std::vector<std::uint32_t> order(rng& r) const {
    splitmix dice(r.next());
    auto const rank = shuffled_ranks<std::uint32_t>(level.units(), dice);
    return ordered_units<std::uint32_t>(level.predecessors, level.successors, unit_order::random, rank);
  }
  /// Returns parts that are random slices of a random topological order.
  std::vector<std::uint32_t> parts(rng& r) const {
    std::vector<std::uint32_t> of(level.units());
    std::uint32_t part = 0;
    for (auto const u : order(r)) {
      while (part + 1 < limits.parts() && r.one_in(1 + level.units() / limits.parts())) ++part;
      of[u] = part;
    }
    return of;
  }
  /// Returns the same parts as a partition of the graph's nodes.
  partition of_nodes(std::vector<std::uint32_t> const& of) const {
    partition p{std::vector<part_id>(graph.nodes(), no_part), limits.parts()};
    for (std::size_t u = 0; u < of.size(); ++u)
      for (auto const n : units.members[u]) p.of[n] = part_id{of[u]};
    return p;
  }
  /// Returns true if no edge leads to a part with a smaller number.
  bool in_order(std::vector<std::uint32_t> const& of) const {
    for (std::size_t u = 0; u < of.size(); ++u)
      for (auto const need : level.predecessors[u])
        if (of[need] > of[u]) return false;
    return true;
  }
};

}  // namespace cleave::testing
