// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/components.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/partition/units/units.hpp"

namespace cleave::inline v0_2::detail {

/// Edges between units that an order must respect, as predecessors and successors.
template <std::unsigned_integral Index>
struct unit_edges {
  csr<Index> predecessors, successors;
};

/// Returns the edges of `u` plus preferred edges for units that consist of backward nodes only, which no edge
/// restricts otherwise. A preferred edge places such a unit after the forward nodes that it reads. Edges
/// between backward nodes are reversed: backward units then mirror the forward order, and gradients flow from
/// later parts to earlier ones. Preferred edges on a cycle are dropped. O(V + E).
template <std::unsigned_integral Index>
unit_edges<Index> mirrored_backward_edges(basic_snapshot_arrays<Index> const& g, unit_graph<Index> const& u,
                                          std::span<char const> backward) {
  std::vector<char> has_forward(u.size());
  for (std::size_t n = 0; n < g.nodes(); ++n)
    if (u.of[n] != none<Index> && (n >= backward.size() || !backward[n])) has_forward[u.of[n]] = 1;
  std::vector<std::pair<Index, Index>> pairs;  // edges as (target, source)
  each_dependency(g, [&](Index m, Index n) {
    auto const a = u.of[m], b = u.of[n];
    if (a == b || (has_forward[a] && has_forward[b])) return;
    bool const both_backward = backward[m] && backward[n];
    both_backward ? pairs.emplace_back(a, b) : pairs.emplace_back(b, a);
  });
  if (pairs.empty()) return {u.predecessors, u.successors};
  auto const habits = pairs.size();
  for (Index unit = 0; unit < u.size(); ++unit)
    for (Index const need : u.predecessors[unit]) pairs.emplace_back(unit, need);
  if (auto const component = components_of(rows_of(u.size(), pairs)); !component.empty()) {
    auto const first = pairs.begin(), last = first + static_cast<std::ptrdiff_t>(habits);
    pairs.erase(
        std::remove_if(first, last, [&](auto const& e) { return component[e.first] == component[e.second]; }),
        last);
  }
  auto predecessors = rows_of(u.size(), pairs);
  auto successors = users_of(predecessors, u.size());
  return {std::move(predecessors), std::move(successors)};
}

}  // namespace cleave::detail
