// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cleave/graph/argument.hpp>
#include <cleave/graph/carried_label.hpp>
#include <cleave/graph/module_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tool {

/// A graph that has a replicable call once for each stage that needs it, as `cleave::split_module` cuts it.
struct copied_graph {
  std::optional<cleave::module_graph> made;  ///< nothing if each call is in one stage, as in the graph itself
  std::vector<std::uint32_t> stage;          ///< of each call, in the order of `nodes()`
  std::vector<std::uint32_t> original;       ///< of each node of `made`: its position in the graph
};

/// Returns `g` with the copies that the plan `p` of its snapshot `s` asks for. O(n log k) for graphs of size
/// n and k stages.
template <class Snapshot, class Plan>
copied_graph with_copies(cleave::module_graph const& g, Snapshot const& s, Plan const& p) {
  using position = cleave::module_graph::position;
  auto const nodes = g.list().size();
  std::vector<std::size_t> first(nodes + 1);  // where the stages of a node begin in `stages`
  for (auto const& stage : p.stages)
    for (auto const n : stage.nodes) ++first[s.node[n] + 1];
  copied_graph c;
  bool const is_itself = std::ranges::all_of(g.nodes(), [&](position n) { return first[n + 1] == 1; });
  for (std::size_t n = 0; n < nodes; ++n) first[n + 1] += first[n];
  std::vector<std::uint32_t> stages(first.back());
  {
    auto next = first;
    for (std::uint32_t i = 0; i < p.stages.size(); ++i)
      for (auto const n : p.stages[i].nodes) stages[next[s.node[n]]++] = i;
  }
  if (is_itself) {
    for (auto const n : g.nodes()) c.stage.push_back(stages[first[n]]);
    return c;
  }
  auto const stages_of = [&](position n) {
    return std::span(stages).subspan(first[n], first[n + 1] - first[n]);
  };
  // by node: where it is made, or its first copy; the others follow, since copies are made together
  std::vector<position> made(nodes);
  for (position n = 0, next = 0; n < nodes; ++n) {
    made[n] = next;
    next += (std::max)(position{1}, static_cast<position>(stages_of(n).size()));
  }
  cleave::detail::labelled_nodes const labels(g);
  c.made.emplace();
  c.made->metadata = g.metadata;
  for (auto const& a : g.attributes()) c.made->add_attribute(a);
  auto const add = [&](position n, std::size_t stage) {
    auto node = g[n];
    auto const in_stage = [&](position m) {
      auto const list = stages_of(m);
      auto const at = std::ranges::lower_bound(list, static_cast<std::uint32_t>(stage));
      bool const is_there = at != list.end() && *at == stage;
      return made[m] + (is_there ? static_cast<position>(at - list.begin()) : 0);
    };
    for (auto& a : node.args) a = cleave::detail::map_nodes(std::move(a), in_stage);
    for (auto& k : node.kwargs) k.value = cleave::detail::map_nodes(std::move(k.value), in_stage);
    for (auto& m : node.after) m = in_stage(m);
    if (node.kind == cleave::node_kind::placeholder)
      for (auto& [key, value] : node.metadata)
        if (auto const present = key == cleave::detail::carried_key ? labels.find(value) : std::nullopt)
          value = {static_cast<std::int64_t>(made[*present])};
    c.original.push_back(n);
    return c.made->add(std::move(node));
  };
  for (position n = 0; n < nodes; ++n) {
    if (stages_of(n).empty()) add(n, p.stages.size());
    for (auto const i : stages_of(n)) {
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
