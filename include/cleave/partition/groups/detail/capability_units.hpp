// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/units/topological_orders.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// The units that groups are made of, in topological order. Supported units may be in a group.
template <std::unsigned_integral Index>
struct capability_units {
  csr<Index> members;       ///< per unit: its nodes, ascending
  csr<Index> predecessors;  ///< per unit: its predecessors
  csr<Index> successors;    ///< per unit: its successors, ascending
  std::vector<char> supported;

  std::size_t size() const { return members.rows(); }
};

/// Returns `u` with its units in topological order; among ready units the first comes first. O(V + E).
template <std::unsigned_integral Index>
capability_units<Index> sorted_units(capability_units<Index> const& u) {
  std::vector<Index> rank(u.size()), place(u.size());
  std::iota(rank.begin(), rank.end(), Index{});
  auto const order = ordered_units<Index>(u.predecessors, u.successors, unit_order::given, rank);
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<Index>(i);
  capability_units<Index> sorted;
  for (Index const unit : order) {
    for (Index const n : u.members[unit]) sorted.members.add(n);
    for (Index const need : u.predecessors[unit]) sorted.predecessors.add(place[need]);
    sorted.members.close();
    sorted.predecessors.close();
    sorted.supported.push_back(u.supported[unit]);
  }
  sorted.successors = users_of(sorted.predecessors, sorted.size());
  return sorted;
}

/// Merges the units for which `group` names the same unit. The merges must not close a cycle. The new unit is
/// supported if its first one is. O(V + E).
template <std::unsigned_integral Index>
capability_units<Index> contracted_units(capability_units<Index> const& u, std::vector<Index> const& group) {
  std::vector<Index> number(u.size(), none<Index>), unit_of(u.members.item.size());
  std::vector<std::pair<Index, Index>> predecessors;
  capability_units<Index> made;
  for (std::size_t i = 0; i < u.size(); ++i) {
    auto& unit = number[group[i]];
    if (unit == none<Index>) {
      unit = static_cast<Index>(made.supported.size());
      made.supported.push_back(u.supported[i]);
    }
    for (Index const n : u.members[i]) unit_of[n] = unit;
    for (Index const need : u.predecessors[i])
      if (Index const other = number[group[need]]; other != unit) predecessors.emplace_back(unit, other);
  }
  csr<Index> by_node;
  for (Index const unit : unit_of) {
    by_node.add(unit);
    by_node.close();
  }
  std::size_t const units = made.supported.size();
  made.members = users_of(by_node, units);
  made.predecessors = rows_of(units, predecessors);
  made.successors = users_of(made.predecessors, units);
  return sorted_units(made);
}

/// Contracts nodes that must share a group: the groups of the graph, the sets of `together`, and cycles
/// through these. A unit is supported if each of its nodes is. Replicable nodes count like any other node,
/// because they cannot be copied to a device that does not support them. O(V + E).
template <std::unsigned_integral Index>
capability_units<Index> capability_units_of(basic_snapshot_arrays<Index> const& s,
                                            std::span<char const> supported,
                                            std::span<std::vector<std::size_t> const> together) {
  if (std::find(s.replicable.begin(), s.replicable.end(), 1) != s.replicable.end()) {
    auto copy = s;
    copy.replicable.clear();
    return capability_units_of(copy, supported, together);
  }
  auto u = units_of(s, {.together = together});
  std::vector<char> all(u.size(), 1);
  capability_units<Index> units{std::move(u.members), std::move(u.predecessors), std::move(u.successors),
                                all};
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (!supported[n]) units.supported[u.of[n]] = 0;
  return sorted_units(units);
}

}  // namespace cleave::detail
