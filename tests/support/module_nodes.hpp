// SPDX-License-Identifier: MIT
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"

namespace cleave::testing {

/// Returns a node whose target equals its name.
inline module_node node(node_kind kind, std::string const& name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  return n;
}

/// Returns a node that reads `reads`, in order.
inline module_node make(node_kind kind, std::string name, std::string target,
                        std::vector<module_graph::position> const& reads = {}) {
  module_node n;
  n.kind = kind;
  n.name = std::move(name);
  n.target = std::move(target);
  for (auto const v : reads) n.args.push_back(node_argument(v));
  return n;
}

/// Appends a node. Its target is `target`, or else its name.
inline module_graph::position add(module_graph& g, node_kind kind, std::string const& name,
                                  std::vector<module_argument> args = {}, std::string target = {}) {
  auto n = node(kind, name, std::move(args));
  if (!target.empty()) n.target = std::move(target);
  return g.add(std::move(n));
}

}  // namespace cleave::testing
