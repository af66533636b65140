// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/graph/concepts.hpp"

namespace cleave {

/// The nodes that `roots` need, each after those it needs itself, for IRs that have no node list and only
/// remember where a value came from. `operands(n)` is a range of nodes, asked once per node. On a cycle the
/// order has a backward edge, which `find_cycle` will name. O(V + E), no recursion.
template <handle Node, class Operands>
std::vector<Node> producers_first(std::vector<Node> const& roots, Operands operands) {
  struct frame {
    Node node;
    std::vector<Node> rest;  // operands still to visit, the next one last
  };
  std::vector<Node> order;
  std::unordered_set<Node> seen;
  std::vector<frame> path;
  auto const enter = [&](Node const& n) {
    if (!seen.insert(n).second) return;
    frame f{n, {}};
    for (auto m : operands(n)) f.rest.push_back(m);
    std::ranges::reverse(f.rest);
    path.push_back(std::move(f));
  };
  for (auto const& r : roots) {
    enter(r);
    while (!path.empty()) {
      if (path.back().rest.empty()) {
        order.push_back(path.back().node);
        path.pop_back();
      } else {
        Node const next = path.back().rest.back();
        path.back().rest.pop_back();
        enter(next);
      }
    }
  }
  return order;
}
}  // namespace cleave
