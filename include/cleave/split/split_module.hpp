// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/assign.hpp"
#include "cleave/partition/validity.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/module_builder.hpp"
#include "cleave/split/module_names.hpp"

namespace cleave {

/// Where the outer graph reads attributes: all at its front, dead ones too; or each before the first piece
/// that takes it.
enum class attribute_place : std::uint8_t { front, first_use };
/// What happens where parts in order of first appearance would run before a part that they need: another
/// order, or an error.
enum class appearance : std::uint8_t { preferred, required };

struct split_module_options {
  order stages = order::program;
  appearance first = appearance::preferred;
  attribute_place attributes = attribute_place::front;
  module_builder_options pieces = {};
  std::string affix = {};  ///< in the name of each piece, before the label of its part
};

/// One piece of a split module_graph. Nodes and values are positions in the original.
struct submodule {
  std::string label;  ///< of its part, with the affix
  std::string path;   ///< of the piece in the outer graph
  std::shared_ptr<module_graph const> graph;
  std::vector<module_graph::position> nodes, inputs, outputs;
  std::vector<module_graph::position> own_attributes;  ///< module attributes, which nobody passes
  std::vector<std::uint32_t> dependencies,
      dependents;  ///< other pieces, in the order in which the graph first shows it
};

/// A module_graph cut into pieces, and the outer graph that calls them.
struct split_module_result {
  module_graph outer;                 ///< the pieces are its attributes, as bodies
  std::vector<submodule> submodules;  ///< by first appearance in the graph
  std::vector<std::uint32_t> order;   ///< the pieces as the outer graph calls them
  std::vector<std::pair<std::string, std::string>>
      qualified_names;  ///< of called modules: new path, old path; each new one once
};

/// A node for which the callback has no answer. The witness: the node.
class unassigned_node_error : public witness_error<module_graph::position> {
 public:
  unassigned_node_error(module_graph const& g, module_graph::position n)
      : witness_error("no part was given for node '" + g[n].name + "' (" + g[n].target + ")", n) {}
};

/// Parts in order of first appearance would run `consumer` before `producer`. The witness: the two nodes.
class stage_order_error : public witness_error<std::pair<module_graph::position, module_graph::position>> {
 public:
  stage_order_error(module_graph const& g, module_graph::position producer, module_graph::position consumer)
      : witness_error("node '" + g[consumer].name + "' needs '" + g[producer].name +
                          "', whose part appears later: the parts have no order of first appearance",
                      {producer, consumer}) {}
};

/// A module_graph as split_module cuts it: tensor attributes are passed like inputs, module attributes are
/// state.
class module_call_graph {
 public:
  using position = module_graph::position;

  explicit module_call_graph(module_graph const& g) : g_(&g) {
    for (position n = 0; n < g.list().size(); ++n) {
      if (g[n].kind == node_kind::placeholder) inputs_.push_back(n);
      if (g[n].kind == node_kind::get_attr) (is_module(n) ? state_ : inputs_).push_back(n);
    }
  }

  std::span<position const> nodes() const { return g_->nodes(); }
  std::vector<position> operands(position n) const { return g_->operands(n); }
  std::span<position const> inputs() const { return inputs_; }
  std::span<position const> state() const { return state_; }
  std::vector<position> outputs() const { return g_->outputs(); }
  std::vector<position> after(position n) const { return g_->after(n); }
  std::string_view name(position n) const { return g_->name(n); }

 private:
  bool is_module(position n) const {
    auto const* a = g_->find_attribute((*g_)[n].target);
    return a && a->what == module_attribute::kind::module;
  }

  module_graph const* g_;
  std::vector<position> inputs_, state_;
};

/// Writes the outer graph of a split; `split_module` is its one use.
class outer_builder {
 public:
  using position = module_graph::position;

  outer_builder(module_graph const& g, split_module_options const& options)
      : g_(g), options_(options), at_(g.list().size()) {}

  module_graph build(std::vector<submodule> const& pieces, std::vector<std::uint32_t> const& order) {
    bool const front = options_.attributes == attribute_place::front || pieces.empty();
    for (position n = 0; n < g_.list().size(); ++n)
      if (g_[n].kind == node_kind::placeholder || (front && g_[n].kind == node_kind::get_attr)) copy(n);
    for (auto const i : order) call(pieces[i]);
    if (auto const output = g_.output()) give(*output);
    register_attributes(pieces);
    return std::move(outer_);
  }

 private:
  position made(position n) {
    if (!at_[n]) copy(n);  // an attribute that nobody has read yet
    return *at_[n];
  }

  void copy(position v) {
    module_node n = g_[v];
    n.from = v;
    bool const variadic = n.target.starts_with('*');
    bool const keep = options_.pieces.nodes == node_naming::original && n.kind == node_kind::placeholder;
    n.name = names_.take(name_candidate(n.kind, keep ? n.name : n.target));
    if (keep && !variadic) n.target = g_[v].name;
    at_[v] = outer_.add(std::move(n));
  }

  void call(submodule const& piece) {
    module_node n;
    n.kind = node_kind::call_module;
    n.target = piece.path;
    for (auto const v : piece.inputs) n.args.push_back(node_argument(made(v)));
    n.name = names_.take(name_candidate(n.kind, n.target));
    position const result = outer_.add(std::move(n));
    if (piece.outputs.size() == 1 && options_.pieces.results == result_form::bare_if_single) {
      at_[piece.outputs.front()] = result;
      return;
    }
    for (std::size_t i = 0; i < piece.outputs.size(); ++i) {
      module_node item;
      item.target = "getitem";
      item.args = {node_argument(result), {static_cast<std::int64_t>(i)}};
      item.name = names_.take(item.target);
      at_[piece.outputs[i]] = outer_.add(std::move(item));
    }
  }

  void give(position output) {
    module_node n = g_[output];
    for (auto& a : n.args) a = with_nodes(std::move(a), [&](position v) { return made(v); });
    for (auto& k : n.kwargs) k.value = with_nodes(std::move(k.value), [&](position v) { return made(v); });
    n.after.clear();
    n.name = names_.take("output");
    outer_.add(std::move(n));
  }

  /// Paths with fewer dots first, in the order of the nodes that name them.
  void register_attributes(std::vector<submodule> const& pieces) {
    std::unordered_map<std::string_view, submodule const*> piece_at;
    for (auto const& piece : pieces) piece_at[piece.path] = &piece;
    std::vector<module_attribute> paths;
    std::unordered_set<std::string> known;
    for (auto const& n : outer_.list()) {
      if ((n.kind != node_kind::get_attr && n.kind != node_kind::call_module) ||
          !known.insert(n.target).second)
        continue;
      if (n.kind == node_kind::get_attr) {
        paths.push_back(*g_.find_attribute(n.target));
        if (paths.back().original.empty()) paths.back().original = n.target;
      } else {
        paths.push_back({n.target, module_attribute::kind::module, {}, piece_at.at(n.target)->graph, {}, {}});
      }
    }
    std::ranges::stable_sort(paths, {},
                             [](module_attribute const& a) { return std::ranges::count(a.path, '.'); });
    for (auto& a : paths) outer_.add_attribute(std::move(a));
  }

  module_graph const& g_;
  split_module_options const& options_;
  module_graph outer_;
  module_names names_;
  std::vector<std::optional<position>> at_;  // of a node of the original: where the outer graph has its value
};

/// Which pieces need which, each list in the order in which the graph first shows it. Expected O(V + E).
template <class Snapshot>
void list_relations(Snapshot const& s, partition const& p, std::vector<submodule>& pieces) {
  std::unordered_set<std::uint64_t> known;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    auto const to = index(p.of[n]);
    auto const need = [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (from == to || !known.insert(std::uint64_t{from} << 32 | to).second) return;
      pieces[from].dependents.push_back(to);
      pieces[to].dependencies.push_back(from);
    };
    for (auto const v : s.operands[n])
      if (s.from[v] == source::node) need(s.producer[v]);
    for (auto const m : s.after[n]) need(m);
  }
}

/// Cuts `g` by a callback, as torch.fx's split_module does: calls for which `part_of(node)` answers the same
/// go into one piece, and the outer graph calls the pieces. `part_of` is asked once for each call, in graph
/// order; it answers with text, or with an optional text that is empty where it does not know the node.
/// Inputs and outputs of a piece are in the order of their first use. Nothing is written into `g`. Expected
/// O(V + E + parts log parts).
///
/// \throws unassigned_node_error, missing_target_error, stage_order_error, and partition_error where parts
/// need each other in a cycle.
template <class F>
split_module_result split_module(module_graph const& g, F part_of, split_module_options const& options = {}) {
  using position = module_graph::position;
  if (auto const n = find_missing_target(g)) throw missing_target_error(g, *n);
  module_call_graph const calls(g);
  auto const p = assign(calls, [&](position n) -> std::string {
    auto answer = part_of(g[n]);
    if constexpr (requires { answer.has_value(); }) {
      if (!answer.has_value()) throw unassigned_node_error(g, n);
      return *std::move(answer);
    } else {
      return answer;
    }
  });
  auto const s = snapshot_of(calls);
  auto const cut = make_plan(s, p, {options.stages, output_order::first_use});
  if (options.first == appearance::required)
    if (auto const edge = find_backward_edge(s, p))
      throw stage_order_error(g, s.node[static_cast<std::uint32_t>(edge->producer)],
                              s.node[static_cast<std::uint32_t>(edge->consumer)]);

  std::unordered_set<std::string_view> read;  // paths that the outer graph may read itself
  for (auto const& n : g.list())
    if (n.kind == node_kind::get_attr) read.insert(n.target);
  split_module_result result;
  std::vector<std::string> new_path(g.list().size());  // of a called module
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    auto const& stage = cut.stages[i];
    module_builder b(g, options.pieces);
    emit_stage(calls, s, stage, b);
    submodule piece;
    piece.label = options.affix.empty() ? p.label[i] : options.affix + "_" + p.label[i];
    piece.path = "submod_" + piece.label;
    while (read.contains(piece.path)) piece.path += "_";
    piece.graph = std::make_shared<module_graph const>(std::move(b).finish());
    for (auto const n : stage.nodes) piece.nodes.push_back(s.node[n]);
    for (auto const v : stage.inputs) piece.inputs.push_back(s.value[v]);
    for (auto const v : stage.outputs) piece.outputs.push_back(s.value[v]);
    for (auto const v : stage.state) piece.own_attributes.push_back(s.value[v]);
    for (auto const& n : piece.graph->list())
      if (n.kind == node_kind::call_module) new_path[n.from] = piece.path + "." + n.target;
    result.submodules.push_back(std::move(piece));
  }
  for (auto const i : cut.order) result.order.push_back(index(i));
  list_relations(s, p, result.submodules);
  std::unordered_set<std::string> listed;
  for (auto const n : g.nodes())
    if (!new_path[n].empty() && listed.insert(new_path[n]).second)
      result.qualified_names.emplace_back(new_path[n], g[n].target);
  result.outer = outer_builder(g, options).build(result.submodules, result.order);
  return result;
}

}  // namespace cleave
