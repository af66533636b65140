// SPDX-License-Identifier: MIT
#pragma once
#include <span>
#include <string_view>
#include <vector>

#include "cleave/graph/module_graph.hpp"

namespace cleave::detail {

/// A module_graph in which not only calls but placeholders and attributes are nodes too, so that a group may
/// hold an attribute and a value crosses wherever it comes from. It refers to the graph.
class module_node_graph {
 public:
  using position = module_graph::position;

  explicit module_node_graph(module_graph const& g) : g_(&g) {
    for (position n = 0; n < g.list().size(); ++n)
      if (g[n].kind != node_kind::output) nodes_.push_back(n);
  }

  std::span<position const> nodes() const { return nodes_; }
  std::vector<position> operands(position n) const { return g_->operands(n); }
  std::span<position const> inputs() const { return {}; }
  std::vector<position> outputs() const { return g_->outputs(); }
  std::vector<position> after(position n) const { return g_->after(n); }
  std::string_view name(position n) const { return g_->name(n); }

 private:
  module_graph const* g_;
  std::vector<position> nodes_;
};

}  // namespace cleave::detail
