// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/partition/assign.hpp"
#include "cleave/partition/validity.hpp"
#include "cleave/split/emit.hpp"
#include "cleave/split/make_plan.hpp"
#include "cleave/split/module_builder.hpp"
#include "cleave/split/module_call_graph.hpp"
#include "cleave/split/outer_builder.hpp"

namespace cleave {

/// What happens where parts in order of first appearance would run before a part that they need: another
/// order, or an error.
enum class appearance : std::uint8_t { preferred, required };

/// Which attributes belong to a part: none, they are passed to the pieces that read them; or those for which
/// the callback, which is then asked for them too, has an answer: they are read inside their part like calls.
enum class attribute_rule : std::uint8_t { passed, assignable };
struct split_module_options {
  order stages = order::program;
  appearance first = appearance::preferred;
  attribute_place attributes = attribute_place::front;
  attribute_rule attribute_parts = attribute_rule::passed;
  symbol_rule symbols = symbol_rule::closed;
  module_builder_options pieces = {};
  std::string affix = {};  ///< in the name of each piece, before the label of its part
};

/// A module_graph cut into pieces, and the outer graph that calls them.
struct split_module_result {
  module_graph outer;                ///< the pieces are its attributes, as bodies
  std::vector<module_piece> pieces;  ///< by first appearance in the graph
  std::vector<std::uint32_t> order;  ///< the pieces as the outer graph calls them
  /// Of called modules: new path, old path; each new one once.
  std::vector<std::pair<std::string, std::string>> qualified_names;

  /// The graph of a piece.
  module_graph const& graph(module_piece const& piece) const {
    return outer.find_attribute(piece.path)->body.front();
  }
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

/// A value crosses into a piece, and nothing binds a symbol of its shape. The witness: the value and the node
/// that reads it.
class unbound_symbol_error : public witness_error<std::pair<module_graph::position, module_graph::position>> {
 public:
  unbound_symbol_error(module_graph const& g, std::string name, module_graph::position value,
                       module_graph::position user)
      : witness_error("symbol '" + name + "' in the shape of '" + g[value].name + "', which '" +
                          g[user].name + "' reads in another part, is bound by no node",
                      {value, user}),
        symbol(std::move(name)) {}
  std::string symbol;
};

/// Which pieces need which, each list in the order in which the graph first shows it. Expected O(V + E).
template <class Snapshot>
void list_relations(Snapshot const& s, partition const& p, std::vector<module_piece>& pieces) {
  numbering<std::uint64_t, std::uint32_t> known;
  for (std::size_t n = 0; n < s.nodes(); ++n) {
    auto const to = index(p.of[n]);
    auto const need = [&](std::size_t m) {
      auto const from = index(p.of[m]);
      if (from == to) return;
      auto const before = known.size();
      if (known.insert(std::uint64_t{from} << 32 | to) < before) return;
      pieces[from].dependents.push_back(to);
      pieces[to].dependencies.push_back(from);
    };
    auto const need_value = [&](auto v) {
      if (s.from[v] == source::node) need(s.producer[v]);
    };
    for (auto const v : s.operands[n]) {
      if (s.from[v] != source::node || p.of[s.producer[v]] != p.of[n])
        for (auto const c : s.companions[v]) need_value(c);
      need_value(v);
    }
    for (auto const m : s.after[n]) need(m);
  }
}

/// The first value that a part is given although nothing binds a symbol of its shape, and the node that reads
/// it. O(V + E).
template <class Snapshot>
std::optional<std::pair<module_graph::position, module_graph::position>> find_unbound_value(
    module_graph const& g, module_call_graph const& calls, Snapshot const& s, partition const& p) {
  for (std::size_t n = 0; n < s.nodes(); ++n)
    for (auto const v : s.operands[n])
      if (s.from[v] != source::node || p.of[s.producer[v]] != p.of[n])
        for (auto const& symbol : g[s.value[v]].symbols)
          if (!calls.binders().find(symbol))
            return std::pair(s.value[v], s.node[static_cast<std::uint32_t>(n)]);
  return std::nullopt;
}

/// Cuts `g` by a callback, as torch.fx's split_module does: calls for which `part_of(node)` answers the same
/// go into one piece, and the outer graph calls the pieces. `part_of` is asked once for each call, in graph
/// order; it answers with text, or with an optional text that is empty where it does not know the node.
/// Inputs and outputs of a piece are in the order of their first use. Nothing is written into `g`. Expected
/// O(V + E + parts log parts).
///
/// \throws unassigned_node_error, missing_target_error, unbound_symbol_error, stage_order_error, and
/// partition_error where parts need each other in a cycle.
template <class F>
split_module_result split_module(module_graph const& g, F part_of, split_module_options const& options = {}) {
  using position = module_graph::position;
  if (auto const n = find_missing_target(g)) throw missing_target_error(g, *n);
  label_numbering<std::string> labels;
  std::vector<part_id> part(g.list().size(), no_part);
  partition p;
  for (position n = 0; n < g.list().size(); ++n) {
    bool const attribute =
        g[n].kind == node_kind::get_attr && options.attribute_parts == attribute_rule::assignable;
    if (!attribute && !module_graph::is_call(g[n])) continue;
    std::optional<std::string> answer = part_of(g[n]);
    if (!answer && attribute) continue;
    if (!answer) throw unassigned_node_error(g, n);
    part[n] = part_id{labels.insert(*std::move(answer))};
    p.of.push_back(part[n]);
  }
  auto const label = std::move(labels).labels();
  p.parts = static_cast<std::uint32_t>(label.size());

  module_call_graph const calls(g, part, options.symbols);
  auto const s = snapshot_of(calls);
  if (options.symbols == symbol_rule::closed)
    if (auto const unbound = find_unbound_value(g, calls, s, p)) {
      auto const& symbols = g[unbound->first].symbols;
      auto const symbol =
          std::ranges::find_if(symbols, [&](auto const& name) { return !calls.binders().find(name); });
      throw unbound_symbol_error(g, *symbol, unbound->first, unbound->second);
    }
  auto const cut = make_plan(s, p, {options.stages, output_order::first_use});
  if (options.first == appearance::required)
    if (auto const edge = find_backward_edge(s, p))
      throw stage_order_error(g, s.node[static_cast<std::uint32_t>(edge->producer)],
                              s.node[static_cast<std::uint32_t>(edge->consumer)]);

  numbering<std::string_view, std::uint32_t> read;  // paths that the outer graph may read itself
  for (auto const& n : g.list())
    if (n.kind == node_kind::get_attr) read.insert(n.target);
  split_module_result result;
  std::vector<module_graph> graphs;
  std::vector<std::string> new_path(g.list().size());  // of a called module
  for (std::uint32_t i = 0; i < p.parts; ++i) {
    auto const& stage = cut.stages[i];
    module_builder b(g, options.pieces);
    b.reserve(stage.inputs.size() + stage.state.size() + stage.nodes.size() + 1);
    emit_stage(calls, s, stage, b);
    module_piece made;
    made.label = options.affix.empty() ? label[i] : options.affix + "_" + label[i];
    made.path = "submod_" + made.label;
    while (read.find(made.path) != none<std::uint32_t>) made.path += "_";
    graphs.push_back(std::move(b).finish());
    for (auto const n : stage.nodes) made.nodes.push_back(s.node[n]);
    for (auto const v : stage.inputs) made.inputs.push_back(s.value[v]);
    for (auto const v : stage.outputs) made.outputs.push_back(s.value[v]);
    for (auto const v : stage.state) made.own_attributes.push_back(s.value[v]);
    for (auto const& n : graphs.back().list())
      if (n.kind == node_kind::call_module) new_path[n.from] = made.path + "." + n.target;
    result.pieces.push_back(std::move(made));
  }
  for (auto const i : cut.order) result.order.push_back(index(i));
  list_relations(s, p, result.pieces);
  numbering<std::string_view, std::uint32_t> listed;
  for (auto const n : g.nodes())
    if (!new_path[n].empty() && listed.insert(new_path[n]) == result.qualified_names.size())
      result.qualified_names.emplace_back(new_path[n], g[n].target);
  result.outer = outer_builder(g, options.attributes, options.pieces)
                     .build(result.pieces, std::move(graphs), result.order);
  return result;
}

/// The same with the rules of torch.fx's split_module_simple: pieces run in order of first appearance,
/// attributes may have parts of their own, and a symbol that is bound late or nowhere is left out. Otherwise
/// nothing is lost: defaults and modules are kept.
template <class F>
split_module_result split_module_simple(module_graph const& g, F part_of, std::string affix = {}) {
  return split_module(g, std::move(part_of),
                      {.first = appearance::required,
                       .attribute_parts = attribute_rule::assignable,
                       .symbols = symbol_rule::bound_before_use,
                       .affix = std::move(affix)});
}

}  // namespace cleave
