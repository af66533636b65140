// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/graph/argument.hpp>
#include <cleave/graph/module_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// A graph that has a replicable call once for each stage that needs it, as `cleave::split_module` cuts it.
struct copied_graph {
  cleave::module_graph graph;
  std::vector<std::uint32_t> stage;     ///< of each call, in the order of `nodes()`
  std::vector<std::uint32_t> original;  ///< of each node of `graph`: its position in the graph
};

/// Returns `g` with the copies that the plan `p` of its snapshot `s` asks for. O(n log k) for graphs of size
/// n and k stages.
template <class Snapshot, class Plan>
copied_graph with_copies(cleave::module_graph const& g, Snapshot const& s, Plan const& p) {
  using position = cleave::module_graph::position;
  std::vector<std::vector<std::uint32_t>> stages(g.list().size());
  for (std::uint32_t i = 0; i < p.stages.size(); ++i)
    for (auto const n : p.stages[i].nodes) stages[s.node[n]].push_back(i);
  // by node: itself, or its copy in each of `stages`
  std::vector<std::vector<position>> made(g.list().size());
  copied_graph c;
  c.graph.metadata = g.metadata;
  for (auto const& a : g.attributes()) c.graph.add_attribute(a);
  auto const add = [&](position n, std::size_t stage) {
    auto node = g[n];
    auto const in_stage = [&](position m) {
      if (made[m].size() == 1) return made[m].front();
      auto const at = std::ranges::lower_bound(stages[m], static_cast<std::uint32_t>(stage));
      bool const is_there = at != stages[m].end() && *at == stage;
      return made[m][is_there ? static_cast<std::size_t>(at - stages[m].begin()) : 0];
    };
    for (auto& a : node.args) a = cleave::detail::map_nodes(std::move(a), in_stage);
    for (auto& k : node.kwargs) k.value = cleave::detail::map_nodes(std::move(k.value), in_stage);
    for (auto& m : node.after) m = in_stage(m);
    made[n].push_back(c.graph.add(std::move(node)));
    c.original.push_back(n);
  };
  for (position n = 0; n < g.list().size(); ++n) {
    if (stages[n].empty()) add(n, p.stages.size());
    for (auto const i : stages[n]) {
      c.stage.push_back(i);
      add(n, i);
    }
  }
  return c;
}

/// Returns `g` with another `from` for its nodes: `original[n]` for n. Does the same in the bodies of the
/// modules that it calls if `g` is the outer graph of a split.
inline cleave::module_graph with_origins(cleave::module_graph const& g,
                                         std::vector<std::uint32_t> const& original, bool is_outer) {
  cleave::module_graph made;
  made.metadata = g.metadata;
  std::set<std::string> called;
  for (auto node : g.list()) {
    if (node.from < original.size()) node.from = original[node.from];
    if (is_outer && node.kind == cleave::node_kind::call_module) called.insert(node.target);
    made.add(std::move(node));
  }
  for (auto a : g.attributes()) {
    if (called.contains(a.path) && !a.body.empty())
      a.body.front() = with_origins(a.body.front(), original, false);
    made.add_attribute(std::move(a));
  }
  return made;
}

}  // namespace tool
