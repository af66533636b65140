// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/model/partition.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/modules/module_builder.hpp"

namespace cleave::inline v0_2::detail {

/// One piece of a graph in which groups of nodes are fused. Nodes and values are positions in the original.
struct fused_piece {
  std::string path;  ///< path of the piece in the outer graph
  std::vector<module_graph::position> nodes, inputs, outputs;
  std::vector<std::string> names;  ///< in the outer graph: of the call, then of each result's getitem
};

/// Returns true if a piece returns a tuple, whose elements the outer graph takes out.
inline bool gives_tuple(fused_piece const& p, result_form results) {
  return p.outputs.size() != 1 || results == result_form::tuple;
}

/// Names the calls and results of pieces in the outer graph. Pieces are named one after the other; names
/// differ from all names of the original.
class fused_names {
 public:
  using position = module_graph::position;

  explicit fused_names(module_graph const& g) : called_(g.list().size()) {
    for (auto const& n : g.list()) known_.take(n.name);
  }

  void name(fused_piece& p, result_form results) {
    p.names.push_back(known_.take(name_candidate(node_kind::call_module, p.path)));
    bool const tuple = gives_tuple(p, results);
    for (position const v : p.outputs) {
      if (tuple) p.names.push_back(known_.take("getitem"));
      called_[v] = p.names.back();
    }
  }
  /// Returns the name of `v` if a piece that has been named returns it; otherwise empty.
  std::string const& of(position v) const { return called_[v]; }

 private:
  module_names known_;
  std::vector<std::string> called_;
};

/// Writes the outer graph of fused groups. Used by `fuse_groups`.
class fused_outer {
 public:
  using position = module_graph::position;

  fused_outer(module_graph const& g, std::vector<fused_piece> const& pieces, result_form results)
      : g_(g), pieces_(pieces), results_(results), piece_of_(g.list().size(), nowhere), value_at_(piece_of_) {
    for (std::uint32_t i = 0; i < pieces_.size(); ++i)
      for (position const n : pieces_[i].nodes) piece_of_[n] = i;
  }

  /// Returns the outer graph. `graphs[i]` is the graph of piece i.
  module_graph build(std::vector<module_graph> graphs) {
    list_steps();
    for (auto const at : ready_steps()) write(steps_[at]);
    register_attributes(std::move(graphs));
    return std::move(outer_);
  }

 private:
  static constexpr auto nowhere = none<std::uint32_t>;

  /// One node of the outer graph: a node of the original, a call of a piece, or an item, which takes one
  /// result out of a call.
  struct step {
    enum class kind : std::uint8_t { node, call, item };
    kind what;
    std::uint32_t of;      // the node, or the piece
    std::uint32_t result;  // for an item: the position of the result
    std::string name;
    std::vector<std::uint32_t> reads{}, after{};  // steps
    position made = 0;                            // its position in the outer graph
  };

  std::uint32_t add(step::kind what, std::uint32_t of, std::uint32_t result, std::string name) {
    steps_.push_back({what, of, result, std::move(name)});
    return static_cast<std::uint32_t>(steps_.size() - 1);
  }

  /// Lists the steps in the order of the original. A call stands where the last node of its piece was.
  void list_steps() {
    std::vector<std::uint32_t> closes(g_.list().size(), nowhere);
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) closes[pieces_[i].nodes.back()] = i;
    call_of_.resize(pieces_.size());
    for (position n = 0; n < g_.list().size(); ++n) {
      if (piece_of_[n] == nowhere) value_at_[n] = add(step::kind::node, n, 0, g_[n].name);
      auto const i = closes[n];
      if (i == nowhere) continue;
      auto const& p = pieces_[i];
      call_of_[i] = add(step::kind::call, i, 0, p.names.front());
      for (std::uint32_t k = 0; k < p.outputs.size(); ++k)
        value_at_[p.outputs[k]] =
            gives_tuple(p, results_) ? add(step::kind::item, i, k, p.names[k + std::size_t{1}]) : call_of_[i];
    }
  }

  /// Returns the steps in an order in which each comes after all steps that it needs. A step that comes too
  /// early moves behind the last step for which it waits.
  std::vector<std::size_t> ready_steps() {
    dependency_table t;
    for (std::uint32_t at = 0; at < steps_.size(); ++at) {
      auto& s = steps_[at];
      auto const follow = [&](position n) {
        for (position const m : g_.after(n))
          if (auto const other = piece_of_[m] == nowhere ? value_at_[m] : call_of_[piece_of_[m]]; other != at)
            s.after.push_back(other);
      };
      if (s.what == step::kind::item) s.reads = {call_of_[s.of]};
      if (s.what == step::kind::node) {
        for (position const v : g_.operands(s.of)) s.reads.push_back(value_at_[v]);
        follow(s.of);
      }
      if (s.what == step::kind::call) {
        for (position const v : pieces_[s.of].inputs) s.reads.push_back(value_at_[v]);
        for (position const n : pieces_[s.of].nodes) follow(n);
      }
      for (auto const* list : {&s.reads, &s.after})
        for (auto const need : *list) t.predecessors.add(need);
      t.predecessors.close();
    }
    t.successors = transposed(t.predecessors);
    return ready_order(t);
  }

  void write(step& s) {
    module_node n = s.what == step::kind::node ? original(s.of) : made_for(s);
    n.name = s.name;
    n.after.clear();
    for (auto const other : s.after) n.after.push_back(steps_[other].made);
    s.made = outer_.add(std::move(n));
  }

  module_node original(position at) const {
    module_node n = g_[at];
    n.from = at;
    auto const moved = [&](position v) { return steps_[value_at_[v]].made; };
    for (auto& a : n.args) a = map_nodes(std::move(a), moved);
    for (auto& k : n.kwargs) k.value = map_nodes(std::move(k.value), moved);
    return n;
  }

  /// Returns the node of a call or an item. A node with the value of one original node keeps all that is
  /// known of that value.
  module_node made_for(step const& s) const {
    auto const& p = pieces_[s.of];
    bool const call = s.what == step::kind::call;
    module_node n;
    if (!call || !gives_tuple(p, results_)) {
      position const v = p.outputs[s.result];
      n = g_[v];
      n.from = v;
    }
    n.kind = call ? node_kind::call_module : node_kind::call_function;
    n.target = call ? p.path : "getitem";
    n.args.clear();
    n.kwargs.clear();
    for (auto const read : s.reads) n.args.push_back(node_argument(steps_[read].made));
    if (!call) n.args.push_back({static_cast<std::int64_t>(s.result)});
    return n;
  }

  /// Registers the attributes of the original, except those that only pieces read, and then the pieces.
  void register_attributes(std::vector<module_graph> graphs) {
    numbering<std::string, std::uint32_t> in_pieces, outside;
    for (position n = 0; n < g_.list().size(); ++n)
      if (g_[n].kind == node_kind::get_attr || g_[n].kind == node_kind::call_module)
        (piece_of_[n] == nowhere ? outside : in_pieces).insert(g_[n].target);
    for (auto const& a : g_.attributes())
      if (in_pieces.find(a.path) == nowhere || outside.find(a.path) != nowhere) outer_.add_attribute(a);
    for (std::uint32_t i = 0; i < pieces_.size(); ++i) {
      module_attribute a{pieces_[i].path, module_attribute::kind::module, {}, {}, {}, {}};
      a.body.push_back(std::move(graphs[i]));
      outer_.add_attribute(std::move(a));
    }
    outer_.metadata = g_.metadata;
  }

  module_graph const& g_;
  std::vector<fused_piece> const& pieces_;
  result_form results_;
  std::vector<std::uint32_t> piece_of_;  // by node: its piece
  std::vector<std::uint32_t> value_at_;  // by node: the step that has its value
  std::vector<std::uint32_t> call_of_;   // by piece: the step that calls it
  std::vector<step> steps_;
  module_graph outer_;
};

/// A view of a module_graph in which placeholders and attributes are nodes too, not only calls. So a group
/// can have attributes, and any value can cross a boundary. It refers to the graph.
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

namespace cleave::inline v0_2 {

/// The order of the inputs of a piece.
/// - `first_use`: as its nodes first read them
/// - `graph_order_if_own`: the order of the graph if all of them are the graph's own inputs, as in torch.fx's
///   fuse_by_partitions; otherwise as `first_use`
enum class fused_inputs : std::uint8_t { first_use, graph_order_if_own };

/// Options of `fuse_groups`.
struct fuse_options {
  std::string prefix = "fused_";  ///< start of the pieces' paths, before the number of the group
  result_form results = result_form::bare_if_single;
  fused_inputs inputs = fused_inputs::first_use;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a group cannot become a piece. The witness is the nodes concerned.
using fuse_error = tagged_error<struct fuse_tag, std::vector<module_graph::position>>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A module_graph in which groups of nodes are pieces, and a description of each piece.
struct fused_graph {
  module_graph outer;                       ///< calls the pieces, which are its attributes, with bodies
  std::vector<detail::fused_piece> pieces;  ///< one for each group that has nodes, in the order of groups

  /// Returns the graph of a piece.
  module_graph const& graph(detail::fused_piece const& piece) const {
    return outer.find_attribute(piece.path)->body.front();
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the groups as a partition of `module_node_graph`. Each other node is a part of its own.
/// \throws fuse_error if a group has a placeholder, the output or a node that `g` lacks, or a node is in
/// groups twice
inline partition fused_parts(module_graph const& g,
                             std::vector<std::vector<module_graph::position>> const& groups) {
  using position = module_graph::position;
  std::vector<std::uint32_t> group_of(g.list().size(), none<std::uint32_t>);
  for (std::uint32_t i = 0; i < groups.size(); ++i)
    for (position const n : groups[i]) {
      auto const number = "group " + std::to_string(i);
      if (n >= g.list().size())
        throw fuse_error(number + " has node #" + std::to_string(n) + ", but the graph has only " +
                             std::to_string(g.list().size()) + " nodes",
                         {n});
      if (!module_graph::is_call(g[n]) && g[n].kind != node_kind::get_attr)
        throw fuse_error(
            number + " has " + quoted(g[n].name) +
                ", which is neither a call nor an attribute; leave placeholders and the output out of groups",
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

/// Returns `nodes` in topological order. Among nodes that are ready, the first in `nodes` comes first. O(n
/// log n + operands).
inline std::vector<module_graph::position> sorted_group(module_graph const& g,
                                                        std::vector<module_graph::position> const& nodes) {
  using position = module_graph::position;
  numbering<position, position> place;
  for (position const n : nodes) place.insert(n);
  dependency_table t;
  for (position const n : nodes) {
    for (auto const& list : {g.operands(n), g.after(n)})
      for (position const m : list)
        if (auto const at = place.find(m); at != none<position>) t.predecessors.add(at);
    t.predecessors.close();
  }
  t.successors = transposed(t.predecessors);
  std::vector<position> sorted;
  for (auto const at : ready_order(t)) sorted.push_back(nodes[at]);
  return sorted;
}

/// Reorders the nodes of a stage, and its inputs and outputs accordingly.
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

namespace cleave::inline v0_2 {

/// Makes each group of `g` one piece, which the outer graph calls where the last node of the group was. Nodes
/// that would then run too early move behind what they need; no others move.
///
/// Pieces are numbered by their groups. The nodes of a piece keep the order of the group if dependencies
/// allow it. The inputs of a piece are ordered by `options.inputs`, its outputs by its nodes. Nodes keep
/// their names. A result of an earlier piece has the same name inside later pieces as in the outer graph. An
/// empty group gives no piece. `g` is not modified. Expected O(V + E + n log n) for n nodes in groups.
///
/// \param groups for each group: positions of calls and get_attr nodes in `g`; a node is in one group at most
/// \throws fuse_error, missing_target_error, and partition_error if groups depend on each other in a cycle,
/// or a group on itself through nodes outside
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
