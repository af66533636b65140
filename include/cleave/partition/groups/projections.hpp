// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/dense.hpp"
#include "cleave/partition/groups/fusion_group.hpp"

/// Nodes that take one result out of the several of their operand (`getitem`). Where a node is read by
/// nothing else, they go where it goes, so that no tuple crosses a boundary.
namespace cleave::detail {

/// Calls `f(m, n)` for each node `m` that projections alone read, not the caller, and each `n` of these. O(V
/// + E).
template <std::unsigned_integral Index, class F>
void for_each_projection(basic_dense<Index> const& s, std::span<char const> projection, F f) {
  if (projection.empty()) return;
  std::vector<char> given(s.values());
  for (Index const v : s.outputs) given[v] = 1;
  for (std::size_t m = 0; m < s.nodes(); ++m) {
    bool only = true;
    for (Index const v : s.results[m])
      only &= !given[v] && std::ranges::all_of(s.users[v], [&](Index n) { return projection[n] != 0; });
    for (Index const v : s.results[m])
      for (Index const n : s.users[v])
        if (only) f(m, static_cast<std::size_t>(n));
  }
}

/// Makes each projection supported as what it takes apart is, and adds both to `together`. O(V + E).
template <std::unsigned_integral Index>
void tie_projections(basic_dense<Index> const& s, std::span<char const> projection,
                     std::vector<char>& supported, std::vector<std::vector<std::size_t>>& together) {
  for_each_projection(s, projection, [&](std::size_t m, std::size_t n) {
    supported[n] = supported[m];
    together.push_back({m, n});
  });
}

/// Moves each projection to the group, or to none, where what it takes apart is; it then stands at the end.
/// Groups that are left empty stay. O((V + E) depth of projections of projections).
template <std::unsigned_integral Index>
void move_projections(basic_dense<Index> const& s, std::span<char const> projection,
                      std::vector<fusion_group>& groups) {
  auto const nowhere = groups.size();
  std::vector<std::size_t> group_of(s.nodes(), nowhere);
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (auto const n : groups[i].nodes) group_of[n] = i;
  for (bool moved = true; moved;) {
    std::vector<std::pair<std::size_t, std::size_t>> moves;  // who, and where to
    for_each_projection(s, projection, [&](std::size_t m, std::size_t n) {
      if (group_of[n] != group_of[m]) moves.emplace_back(n, group_of[m]);
    });
    moved = !moves.empty();
    std::vector<char> leaves(s.nodes());
    for (auto const& [n, to] : moves) leaves[n] = 1;
    for (auto& g : groups) std::erase_if(g.nodes, [&](std::size_t n) { return leaves[n] != 0; });
    for (auto const& [n, to] : moves) {
      group_of[n] = to;
      if (to != nowhere) groups[to].nodes.push_back(n);
    }
  }
}

}  // namespace cleave::detail
