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

#include "cleave/graph/argument.hpp"
#include "cleave/graph/carried_label.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/modules/module_builder.hpp"

namespace cleave::inline v0_2 {

/// The place where the outer graph reads attributes.
/// - `front`: all at its front, also unused ones
/// - `first_use`: each before the first piece that takes it; unused ones only if the graph has no other value
/// - `returned`: pieces read their own attributes; the outer graph reads at its front those that it returns,
///   under the names of their nodes
enum class attribute_place : std::uint8_t { front, first_use, returned };

/// One piece of a split module_graph. Nodes and values are positions in the original.
struct module_piece {
  std::string label;  ///< label of its part, with the affix
  std::string path;   ///< path of the piece in the outer graph
  std::vector<module_graph::position> nodes, inputs, outputs;
  std::vector<module_graph::position> own_attributes;  ///< read by the piece, not passed to it
  /// Pieces on which this one depends, and pieces that depend on it, in the order in which the graph first
  /// shows it.
  std::vector<std::uint32_t> dependencies, dependents;
  std::string reason = {};  ///< why its nodes are a piece, as a phrase for people; perhaps empty
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Writes the outer graph of a split.
class outer_builder {
 public:
  using position = module_graph::position;

  outer_builder(module_graph const& g, attribute_place attributes, module_builder_options const& options)
      : g_(g), attributes_(attributes), options_(options), at_(g.list().size()) {}

  /// Returns the outer graph. `graphs[i]` is the graph of `pieces[i]`.
  module_graph build(std::vector<module_piece> const& pieces, std::vector<module_graph> graphs,
                     std::vector<std::uint32_t> const& order) {
    bool const returned = attributes_ == attribute_place::returned;
    bool const front = attributes_ == attribute_place::front || (pieces.empty() && !returned);
    std::vector<char> inside(g_.list().size());  // by node: it is in a piece
    for (auto const& piece : pieces)
      for (auto const n : piece.nodes) inside[n] = 1;
    auto const is_read = [&](position n) { return g_[n].kind == node_kind::get_attr && !inside[n]; };
    for (position n = 0; n < g_.list().size(); ++n)
      if (g_[n].kind == node_kind::placeholder || (front && is_read(n))) copy(n);
    if (returned) copy_returned(pieces);
    calls_.assign(pieces.size(), none<position>);
    for (auto const i : order) calls_[i] = call(pieces[i]);
    bool const valueless = std::ranges::none_of(at_, [](auto const& at) { return at.has_value(); });
    for (position n = 0; valueless && !returned && n < g_.list().size(); ++n)
      if (is_read(n)) copy(n);
    if (auto const output = g_.output()) give(*output);
    if (has_carried_label(outer_)) name_carried();
    register_attributes(pieces, graphs);
    outer_.metadata = g_.metadata;
    return std::move(outer_);
  }

 private:
  /// Names the values that become inputs in the next run as the outer graph does, if it has them.
  void name_carried() {
    std::vector<position> original;
    for (auto const& n : outer_.list())
      original.push_back(n.kind == node_kind::placeholder ? n.from : none<position>);
    rename_carried_labels(outer_, original, g_, [&](position n) { return at_[n]; });
  }

  position made(position n) {
    if (!at_[n]) copy(n);  // an attribute that no node has read yet
    return *at_[n];
  }

  void copy(position v) {
    module_node n = g_[v];
    n.from = v;
    bool const variadic = n.target.starts_with('*');
    bool const keep = options_.nodes == node_naming::original && n.kind == node_kind::placeholder;
    n.name = names_.take(name_candidate(n.kind, keep ? n.name : n.target));
    if (keep && !variadic) n.target = g_[v].name;
    at_[v] = outer_.add(std::move(n));
  }

  /// Reads the attributes that the graph returns, once for each time, under paths that no piece has.
  void copy_returned(std::vector<module_piece> const& pieces) {
    numbering<std::string, std::uint32_t> taken;
    for (auto const& piece : pieces) taken.insert(piece.path);
    for (auto const v : g_.outputs()) {
      if (g_[v].kind != node_kind::get_attr) continue;
      module_node n = g_[v];
      n.from = v;
      n.target = at_[v] ? outer_[*at_[v]].target : n.name;
      for (auto known = taken.size(); !at_[v] && taken.insert(n.target) < known; known = taken.size())
        n.target += "_";
      n.name = names_.take(n.name);
      at_[v] = outer_.add(std::move(n));
    }
  }

  position call(module_piece const& piece) {
    module_node n;
    n.kind = node_kind::call_module;
    n.target = piece.path;
    for (auto const v : piece.inputs) n.args.push_back(node_argument(made(v)));
    for (auto const i : piece.dependencies)
      if (calls_[i] != none<position>) n.after.push_back(calls_[i]);
    n.name = names_.take(name_candidate(n.kind, n.target));
    bool const bare = piece.outputs.size() == 1 && options_.results == result_form::bare_if_single;
    if (bare) describe_as(n, piece.outputs.front());
    position const result = outer_.add(std::move(n));
    if (bare) at_[piece.outputs.front()] = result;
    for (std::size_t i = 0; i < piece.outputs.size() && !bare; ++i) {
      module_node item;
      item.target = "getitem";
      item.args = {node_argument(result), {static_cast<std::int64_t>(i)}};
      item.name = names_.take(item.target);
      describe_as(item, piece.outputs[i]);
      at_[piece.outputs[i]] = outer_.add(std::move(item));
    }
    return result;
  }

  /// Copies the shape, symbols and metadata of `v` to `n`, which has its value.
  void describe_as(module_node& n, position v) const {
    n.shape = g_[v].shape;
    n.expression = g_[v].expression;
    n.binds = g_[v].binds;
    n.symbols = g_[v].symbols;
    n.metadata = g_[v].metadata;
  }

  void give(position output) {
    module_node n = g_[output];
    for (auto& a : n.args) a = map_nodes(std::move(a), [&](position v) { return made(v); });
    for (auto& k : n.kwargs) k.value = map_nodes(std::move(k.value), [&](position v) { return made(v); });
    n.after.clear();
    n.name = names_.take("output");
    outer_.add(std::move(n));
  }

  /// Registers attributes and pieces. Paths with fewer dots come first, then the order is that of the nodes
  /// that name them.
  void register_attributes(std::vector<module_piece> const& pieces, std::vector<module_graph>& graphs) {
    numbering<std::string_view, std::uint32_t> piece_at, known;
    for (auto const& piece : pieces) piece_at.insert(piece.path);
    std::vector<module_attribute> paths;
    for (auto const& n : outer_.list()) {
      if (n.kind != node_kind::get_attr && n.kind != node_kind::call_module) continue;
      if (known.insert(n.target) < paths.size()) continue;
      if (n.kind == node_kind::get_attr) {
        auto const& path = g_[n.from].target;
        paths.push_back(*g_.find_attribute(path));
        if (paths.back().original.empty()) paths.back().original = path;
        paths.back().path = n.target;
      } else {
        paths.push_back({n.target, module_attribute::kind::module, {}, {}, {}, {}});
        paths.back().body.push_back(std::move(graphs[piece_at.find(n.target)]));
      }
    }
    std::vector<std::pair<std::ptrdiff_t, std::size_t>> by_dots;
    for (std::size_t i = 0; i < paths.size(); ++i)
      by_dots.emplace_back(std::ranges::count(paths[i].path, '.'), i);
    std::ranges::sort(by_dots);
    for (auto const& [dots, i] : by_dots) outer_.add_attribute(std::move(paths[i]));
  }

  module_graph const& g_;
  attribute_place attributes_;
  module_builder_options options_;
  module_graph outer_;
  module_names names_;
  std::vector<position> calls_;              // by piece: its call
  std::vector<std::optional<position>> at_;  // by node of the original: the outer node that has its value
};

}  // namespace cleave::detail
