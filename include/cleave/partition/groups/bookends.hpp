// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/partition/groups/fusion_group.hpp"

namespace cleave::detail {

/// `groups` without the nodes at their ends that do no work, such as views: those that are `trivial` and that
/// no other node of their group leads to, or that lead to none, trivial ones like themselves apart. What goes
/// closes no cycle. Groups that are left empty stay. O(V + E).
///
/// Preconditions: an entry of `trivial` a node; groups share no node.
template <std::unsigned_integral Index>
std::vector<fusion_group> without_bookends(basic_dense<Index> const& s, std::vector<fusion_group> groups,
                                           std::span<char const> trivial) {
  expects(trivial.size() == s.nodes(), "an entry of `trivial` for each node");
  std::vector<std::size_t> group_of(s.nodes(), groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i)
    for (auto const n : groups[i].nodes) group_of[n] = i;

  auto first = std::vector<char>(trivial.begin(), trivial.end()), last = first;
  for (std::size_t n = 0; n < s.nodes(); ++n)
    for (Index const v : s.operands[n])
      if (Index const m = s.producer[v]; m != none<Index> && group_of[m] == group_of[n] && !first[m])
        first[n] = 0;
  for (std::size_t n = s.nodes(); n-- > 0;)
    for (Index const v : s.results[n])
      for (Index const user : s.users[v])
        if (group_of[user] == group_of[n] && !last[user]) last[n] = 0;

  for (auto& g : groups) std::erase_if(g.nodes, [&](std::size_t n) { return first[n] != 0 || last[n] != 0; });
  return groups;
}

}  // namespace cleave::detail
