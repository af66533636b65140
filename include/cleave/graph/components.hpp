// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "cleave/graph/csr.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if the rows can be ordered so that each follows its predecessors. O(rows + items).
template <std::unsigned_integral Index>
bool is_acyclic(csr<Index> const& predecessors) {
  std::vector<Index> users(predecessors.rows()), ready;  // rows without users are removed first
  for (Index const m : predecessors.item) ++users[m];
  for (std::size_t n = 0; n < users.size(); ++n)
    if (users[n] == 0) ready.push_back(static_cast<Index>(n));
  for (std::size_t i = 0; i < ready.size(); ++i)
    for (Index const m : predecessors[ready[i]])
      if (--users[m] == 0) ready.push_back(m);
  return ready.size() == predecessors.rows();
}

/// Returns, for each row, the number of its strongly connected component. Returns an empty list if there is
/// no cycle. O(rows + items), without recursion. Tarjan, SIAM J. Comput. 1(2), 1972.
template <std::unsigned_integral Index>
std::vector<Index> components_of(csr<Index> const& predecessors) {
  if (is_acyclic(predecessors)) return {};
  auto const n = predecessors.rows();
  std::vector<Index> met(n, none<Index>), low(n), component(n, none<Index>), open, path;
  auto next = predecessors.first;  // of a row: the item to look at next
  Index count = 0, found = 0;
  auto const enter = [&](Index row) {
    met[row] = low[row] = count++;
    open.push_back(row);
    path.push_back(row);
  };
  for (std::size_t root = 0; root < n; ++root) {
    if (met[root] != none<Index>) continue;
    enter(static_cast<Index>(root));
    while (!path.empty()) {
      Index const row = path.back();
      if (next[row] < predecessors.first[row + std::size_t{1}]) {
        Index const to = predecessors.item[next[row]++];
        if (met[to] == none<Index>)
          enter(to);
        else if (component[to] == none<Index>)
          low[row] = (std::min)(low[row], met[to]);
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = (std::min)(low[path.back()], low[row]);
      if (low[row] != met[row]) continue;
      for (Index last = none<Index>; last != row; open.pop_back()) component[last = open.back()] = found;
      ++found;
    }
  }
  return component;
}

}  // namespace cleave::detail
