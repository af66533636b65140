// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <vector>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// Returns the values that the bodies of `n` use but do not define, each once, in order of first use. A value
/// that a body yields counts as used. Expected O(size of the bodies), without recursion.
template <nested_graph Graph>
std::vector<value_t<Graph>> captures(Graph const& g, node_t<Graph> n) {
  std::vector<region_t<Graph>> regions;
  for (auto r : g.regions(n)) regions.push_back(r);
  std::vector<value_t<Graph>> used;
  if (regions.empty()) return used;

  numbering<value_t<Graph>, std::size_t> defined;
  for (std::size_t i = 0; i < regions.size(); ++i) {  // grows while bodies contain bodies
    for (auto v : g.arguments(regions[i])) defined.insert(v);
    for (auto m : g.nodes(regions[i])) {
      for (auto v : g.operands(m)) used.push_back(v);
      for (auto v : results_of(g, m)) defined.insert(v);
      for (auto r : g.regions(m)) regions.push_back(r);
    }
    for (auto v : g.yields(regions[i])) used.push_back(v);
  }
  numbering<value_t<Graph>, std::size_t> seen;
  std::erase_if(used, [&](auto const& v) {
    auto const known = seen.size();
    return defined.find(v) != none<std::size_t> || seen.insert(v) < known;
  });
  return used;
}

}  // namespace cleave::detail
