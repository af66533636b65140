// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/fused_outer.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "cleave/split/modules/module_node_graph.hpp"

namespace cleave {

/// In which order a piece takes its inputs: as its nodes first read them; or so, but in the order of the
/// graph where all of them are the graph's own, as torch.fx's fuse_by_partitions has it.
enum class fused_inputs : std::uint8_t { first_use, graph_order_if_own };

/// How groups are written as pieces.
struct fuse_options {
  std::string prefix = "fused_";  ///< of the paths of pieces, before the number of the group
  result_form results = result_form::bare_if_single;
  fused_inputs inputs = fused_inputs::first_use;
};

}  // namespace cleave

namespace cleave::detail {

/// A group that cannot become a piece. The witness: the nodes concerned.
class fuse_error : public witness_error<std::vector<module_graph::position>> {
 public:
  using witness_error::witness_error;
};
}  // namespace cleave::detail

namespace cleave {

/// A module_graph some of whose nodes are in pieces, and what each piece is.
struct fused_graph {
  module_graph outer;               ///< the pieces are its attributes, as bodies
  std::vector<detail::fused_piece> pieces;  ///< of the groups that have nodes, in their order

  /// The graph of a piece.
  module_graph const& graph(detail::fused_piece const& piece) const {
    return outer.find_attribute(piece.path)->body.front();
  }
};

}  // namespace cleave

namespace cleave::detail {

/// The groups as a partition of `module_node_graph`, each other node a part of its own.
/// \throws fuse_error where a group has a placeholder, the output or no node of `g`, or two have one node.
inline partition fused_parts(module_graph const& g,
                             std::vector<std::vector<module_graph::position>> const& groups) {
  using position = module_graph::position;
  std::vector<std::uint32_t> group_of(g.list().size(), none<std::uint32_t>);
  for (std::uint32_t i = 0; i < groups.size(); ++i)
    for (position const n : groups[i]) {
      auto const number = "group " + std::to_string(i);
      if (n >= g.list().size())
        throw fuse_error(number + " has node #" + std::to_string(n) + ", and the graph has " +
                             std::to_string(g.list().size()) + " nodes",
                         {n});
      if (!module_graph::is_call(g[n]) && g[n].kind != node_kind::get_attr)
        throw fuse_error(number + " has " + quoted(g[n].name) +
                             ", which is no call and no attribute; leave the graph's interface out of groups",
                         {n});
      if (group_of[n] != none<std::uint32_t>)
        throw fuse_error("node " + quoted(g[n].name) + " is in group " + std::to_string(group_of[n]) +
                             " and in " + number + "; a node is in one group at most",
                         {n});
      group_of[n] = i;
    }
  partition p{{}, static_cast<std::uint32_t>(groups.size())};
  module_node_graph const nodes(g);
  for (position const n : nodes.nodes())
    p.of.push_back(part_id{group_of[n] == none<std::uint32_t> ? p.parts++ : group_of[n]});
  return p;
}

/// `nodes` in an order in which each follows those of them that it needs, the first in `nodes` that is ready
/// first. O(n log n + operands).
inline std::vector<module_graph::position> sorted_group(module_graph const& g,
                                                        std::vector<module_graph::position> const& nodes) {
  using position = module_graph::position;
  numbering<position, position> place;
  for (position const n : nodes) place.insert(n);
  need_table t;
  for (position const n : nodes) {
    for (auto const& list : {g.operands(n), g.after(n)})
      for (position const m : list)
        if (auto const at = place.find(m); at != none<position>) t.needs.add(at);
    t.needs.close();
  }
  t.needed_by = transposed(t.needs);
  std::vector<position> sorted;
  for (auto const at : ready_order(t)) sorted.push_back(nodes[at]);
  return sorted;
}

/// Puts the nodes of a stage into another order, and with them what it takes and gives.
template <class Snapshot>
void arrange(module_graph const& g, Snapshot const& s, stage_plan& stage,
             std::vector<module_graph::position> const& nodes, fused_inputs inputs) {
  auto const index_of = [](auto const& list) {
    numbering<std::uint32_t, std::uint32_t> place;
    for (auto const v : list) place.insert(v);
    return place;
  };
  auto const given = index_of(stage.inputs), leaves = index_of(stage.outputs);
  numbering<std::uint32_t, std::uint32_t> taken;
  stage.nodes.clear();
  stage.outputs.clear();
  for (auto const at : nodes) {
    auto const n = s.node.find(at);
    stage.nodes.push_back(n);
    for (auto const v : s.operands[n])
      if (given.find(v) != none<std::uint32_t>) taken.insert(v);
    for (auto const v : s.results[n])
      if (leaves.find(v) != none<std::uint32_t>) stage.outputs.push_back(v);
  }
  stage.inputs = taken.handles();
  auto const own = [&](std::uint32_t v) { return g[s.value[v]].kind == node_kind::placeholder; };
  if (inputs == fused_inputs::graph_order_if_own && std::ranges::all_of(stage.inputs, own))
    std::ranges::sort(stage.inputs, {}, [&](std::uint32_t v) { return s.value[v]; });
}
}  // namespace cleave::detail

namespace cleave {

/// Makes each group of `g` one piece, which the outer graph calls where the last of its nodes was; what then
/// needs to run later moves, nothing else does. Pieces are numbered by their group, their nodes stand in the
/// order of the group as far as it can be kept, their inputs in that of first use, their outputs in that of
/// their nodes. Nodes keep their names, and what a piece before gives is called in a piece as in the outer
/// graph. An empty group gives no piece. Nothing is written into `g`. Expected
/// O(V + E + nodes in groups * log of their number).
///
/// \throws fuse_error, missing_target_error, and partition_error where groups need each other, or one itself
/// through nodes outside, in a cycle.
inline fused_graph fuse_groups(module_graph const& g,
                               std::vector<std::vector<module_graph::position>> const& groups,
                               fuse_options const& options = {}) {
  if (auto const n = detail::find_missing_target(g)) throw detail::missing_target_error(g, *n);
  auto const p = detail::fused_parts(g, groups);
  detail::module_node_graph const nodes(g);
  auto const s = snapshot_of(nodes);
  auto cut = make_plan(s, p);

  std::vector<detail::fused_piece> pieces;
  std::vector<module_graph> graphs;
  detail::fused_names names(g);
  for (std::uint32_t i = 0; i < groups.size(); ++i) {
    if (groups[i].empty()) continue;
    auto& stage = cut.stages[i];
    detail::arrange(g, s, stage, detail::sorted_group(g, groups[i]), options.inputs);
    detail::module_builder b(
        g, {.nodes = node_naming::original, .results = options.results, .modules = module_paths::original});
    for (auto const v : stage.inputs)
      if (auto const& name = names.of(s.value[v]); !name.empty()) b.name_input(s.value[v], name);
    detail::emit_stage(nodes, s, stage, b);
    graphs.push_back(std::move(b).finish());
    auto& piece = pieces.emplace_back();
    piece.path = options.prefix + std::to_string(i);
    while (g.find_attribute(piece.path)) piece.path += "_";
    for (auto const n : stage.nodes) piece.nodes.push_back(s.node[n]);
    for (auto const v : stage.inputs) piece.inputs.push_back(s.value[v]);
    for (auto const v : stage.outputs) piece.outputs.push_back(s.value[v]);
    names.name(piece, options.results);
  }
  fused_graph made;
  made.outer = detail::fused_outer(g, pieces, options.results).build(std::move(graphs));
  made.pieces = std::move(pieces);
  return made;
}

}  // namespace cleave

