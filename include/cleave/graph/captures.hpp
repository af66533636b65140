// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <unordered_set>
#include <vector>

#include "cleave/graph/concepts.hpp"

namespace cleave {

/// The values that the bodies of `n` use and do not define, by first use, each once; what a body yields
/// counts as used. O(size of the bodies), expected; no recursion.
template <nested_graph Graph>
std::vector<value_t<Graph>> captures(Graph const& g, node_t<Graph> n) {
  std::vector<region_t<Graph>> regions;
  for (auto r : g.regions(n)) regions.push_back(r);
  std::vector<value_t<Graph>> used;
  if (regions.empty()) return used;

  std::unordered_set<value_t<Graph>> defined;
  for (std::size_t i = 0; i < regions.size(); ++i) {  // grows while bodies hold bodies
    for (auto v : g.arguments(regions[i])) defined.insert(v);
    for (auto m : g.nodes(regions[i])) {
      for (auto v : g.operands(m)) used.push_back(v);
      for (auto v : results_of(g, m)) defined.insert(v);
      for (auto r : g.regions(m)) regions.push_back(r);
    }
    for (auto v : g.yields(regions[i])) used.push_back(v);
  }
  std::unordered_set<value_t<Graph>> seen;
  std::erase_if(used, [&](auto const& v) { return defined.contains(v) || !seen.insert(v).second; });
  return used;
}

}  // namespace cleave
