// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/components.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/joined_sets.hpp"
#include "cleave/partition/model/needs.hpp"
#include "cleave/partition/model/part_memory.hpp"

namespace cleave {

/// Nodes that must share a part, contracted. Units are numbered by their first node; replicable nodes are in
/// none.
template <std::unsigned_integral Index>
struct unit_graph {
  std::vector<Index> of;  ///< of a node: its unit, or none
  detail::csr<Index> members;     ///< of a unit: its nodes, ascending
  detail::csr<Index> needs;       ///< of a unit: units that come before it, each once
  detail::csr<Index> needed_by;   ///< the same edges from their other end, ascending

  std::size_t size() const { return members.rows(); }
};

}  // namespace cleave

namespace cleave::detail {

/// What units are made of, besides the groups that the graph itself has.
struct unit_rules {
  std::span<std::vector<std::size_t> const> together{};  ///< sets of nodes that must share a part; replicable
                                                         ///< ones among them do not count
  std::span<char const> backward{};                      ///< of a node: its edges do not restrict the order
};

/// Rows of pairs (row, item), as many items as rows: each item once a row, ascending. O(rows + pairs).
template <std::unsigned_integral Index>
csr<Index> rows_of(std::size_t rows, std::vector<std::pair<Index, Index>> const& pairs) {
  narrow<Index>(pairs.size());
  csr<Index> by_item;
  by_item.first.assign(rows + 1, 0);
  for (auto const& [row, item] : pairs) ++by_item.first[item + std::size_t{1}];
  std::partial_sum(by_item.first.begin(), by_item.first.end(), by_item.first.begin());
  by_item.item.resize(pairs.size());
  for (auto next = by_item.first; auto const& [row, item] : pairs) by_item.item[next[item]++] = row;
  return users_of(by_item, rows);
}

/// Numbers the sets of nodes that are not replicable by their first node and links them.
template <std::unsigned_integral Index>
unit_graph<Index> linked_units(basic_dense<Index> const& g, joined_sets<Index>& sets,
                               std::span<char const> backward) {
  unit_graph<Index> u;
  u.of.assign(g.nodes(), none<Index>);
  std::vector<Index> unit_of_set(g.nodes(), none<Index>);
  std::size_t count = 0;
  csr<Index> unit_of;  // the same as `of`, as rows
  for (std::size_t n = 0; n < g.nodes(); ++n, unit_of.close()) {
    if (is_replicable(g, n)) continue;
    auto& unit = unit_of_set[sets[n]];
    if (unit == none<Index>) unit = static_cast<Index>(count++);
    unit_of.add(u.of[n] = unit);
  }
  u.members = users_of(unit_of, count);

  std::vector<std::pair<Index, Index>> pairs;
  auto const is_backward = [&](Index n) { return n < backward.size() && backward[n] != 0; };
  each_need(g, [&](Index m, Index n) {
    if (u.of[m] != u.of[n] && !is_backward(m) && !is_backward(n)) pairs.emplace_back(u.of[n], u.of[m]);
  });
  u.needs = rows_of(count, pairs);
  u.needed_by = users_of(u.needs, count);
  return u;
}

/// Contracts what must share a part: the graph's groups, the sets of `rules.together`, and then whatever lies
/// on a cycle of units, since no order could part it. O(V + E).
template <std::unsigned_integral Index>
unit_graph<Index> units_of(basic_dense<Index> const& g, unit_rules const& rules = {}) {
  joined_sets<Index> sets(g.nodes());
  for (std::size_t n = 0; n < g.group.size(); ++n) sets.join(n, g.group[n]);
  for (auto const& set : rules.together) {
    auto const live = [&](std::size_t n) { return !is_replicable(g, n); };
    auto const one = std::ranges::find_if(set, live);
    for (auto const n : set)
      if (live(n)) sets.join(*one, n);
  }
  auto u = linked_units(g, sets, rules.backward);
  auto const component = components_of(u.needs);
  if (component.empty()) return u;
  std::vector<Index> first(u.size(), none<Index>);  // of a component: a node of it
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    if (u.of[n] == none<Index>) continue;
    auto& one = first[component[u.of[n]]];
    if (one == none<Index>) one = static_cast<Index>(n);
    sets.join(one, n);
  }
  return linked_units(g, sets, rules.backward);
}

}  // namespace cleave::detail
