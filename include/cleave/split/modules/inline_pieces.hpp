// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/carried_label.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2::detail {

/// Writes the nodes of pieces in place of their calls. Used by `inline_pieces`.
class piece_inliner {
 public:
  using position = module_graph::position;

  explicit piece_inliner(module_graph const& outer) : outer_(outer) {}

  module_graph run(std::vector<std::string> const& paths) {
    numbering<std::string, std::uint32_t> pieces;
    for (auto const& path : paths) pieces.insert(path);
    std::vector<module_argument> value(outer_.list().size());
    for (position n = 0; n < outer_.list().size(); ++n) {
      auto const* called = outer_.find_attribute(outer_[n].target);
      bool const inside = outer_[n].kind == node_kind::call_module && called && !called->body.empty() &&
                          pieces.find(outer_[n].target) != none<std::uint32_t>;
      value[n] = inside ? write_piece(called->body.front(), outer_[n], value) : write_node(outer_, n, value);
    }
    if (has_carried_label(whole_)) name_carried(value);
    for (auto const& a : outer_.attributes())
      if (pieces.find(a.path) == none<std::uint32_t> && !whole_.find_attribute(a.path))
        whole_.add_attribute(a);
    whole_.metadata = outer_.metadata;
    return std::move(whole_);
  }

 private:
  /// Names the values that become inputs in the next run as the whole graph does.
  void name_carried(std::vector<module_argument> const& value) {
    auto const node_of = [&](position n) -> std::optional<position> {
      auto const* ref = value[n].size() == 1 ? std::get_if<node_ref>(&value[n].front()) : nullptr;
      return ref != nullptr ? std::optional(ref->node) : std::nullopt;
    };
    std::vector<position> original(whole_.list().size(), none<position>);
    for (auto const v : outer_.inputs())
      if (auto const here = node_of(v)) original[*here] = v;
    rename_carried_labels(whole_, original, outer_, node_of);
  }

  /// Writes the nodes of a called piece and returns the piece's result.
  module_argument write_piece(module_graph const& piece, module_node const& call,
                              std::vector<module_argument> const& outside) {
    std::vector<module_argument> value(piece.list().size());
    std::size_t taken = 0;
    for (position n = 0; n < piece.list().size(); ++n) {
      module_node const& node = piece[n];
      if (node.kind == node_kind::placeholder && taken < call.args.size())
        value[n] = map_values(call.args[taken++], outside);
      else if (node.kind != node_kind::output)
        value[n] = write_node(piece, n, value);
    }
    auto const output = piece.output();
    if (!output || piece[*output].args.empty()) return {token()};
    return map_values(piece[*output].args.front(), value);
  }

  /// Returns the value of a node. The node is written unless it only takes an element out of a piece's
  /// result.
  module_argument write_node(module_graph const& from, position at,
                             std::vector<module_argument> const& value) {
    if (auto found = find_item(from[at], value); !found.empty()) return found;
    module_node n = from[at];
    for (auto& a : n.args) a = map_values(a, value);
    for (auto& k : n.kwargs) k.value = map_values(k.value, value);
    std::vector<position> follows;
    for (auto const m : n.after) each_node(value[m], [&](position there) { follows.push_back(there); });
    n.after = std::move(follows);
    if (n.kind == node_kind::get_attr || n.kind == node_kind::call_module)
      n.target = original(from, n.target);
    n.name = unused(std::move(n.name));
    n.from = none<std::uint32_t>;
    return node_argument(whole_.add(std::move(n)));
  }

  /// Returns `a` with each node in it replaced by the node's value.
  static module_argument map_values(module_argument const& a, std::vector<module_argument> const& value) {
    module_argument made;
    for (auto const& t : a)
      if (auto const* ref = std::get_if<node_ref>(&t))
        made.insert(made.end(), value[ref->node].begin(), value[ref->node].end());
      else
        made.push_back(t);
    return made;
  }

  /// Returns the element that `n` takes out of a literal list or tuple; empty if `n` does something else.
  static module_argument find_item(module_node const& n, std::vector<module_argument> const& value) {
    if (n.kind != node_kind::call_function || n.target != "getitem" || n.args.size() != 2) return {};
    auto const* of = std::get_if<node_ref>(&n.args[0].front());
    auto const* element = std::get_if<std::int64_t>(&n.args[1].front());
    return of && element ? find_element(value[of->node], *element) : module_argument{};
  }

  /// Returns element `i` of a literal list or tuple; empty if `a` is neither or has no such element.
  static module_argument find_element(module_argument const& a, std::int64_t i) {
    auto const* c = a.empty() ? nullptr : std::get_if<container>(&a.front());
    bool const listed = c && (c->what == container::kind::tuple || c->what == container::kind::list);
    if (!listed || i < 0 || i >= static_cast<std::int64_t>(c->size)) return {};
    bool const flat = a.size() == c->size + std::size_t{1};
    auto begin = flat ? 1 + static_cast<std::size_t>(i) : std::size_t{1};
    while (!flat && i-- > 0) begin = subtree_end(a, begin);
    auto const at = [&](std::size_t k) { return a.begin() + static_cast<std::ptrdiff_t>(k); };
    return {at(begin), at(subtree_end(a, begin))};
  }

  /// Registers the attribute `path` of `from` under its path in the original, and returns that path.
  std::string original(module_graph const& from, std::string const& path) {
    auto const* a = from.find_attribute(path);
    if (!a) return path;
    auto const wanted = a->original.empty() ? path : a->original;
    if (!whole_.find_attribute(wanted)) {
      auto moved = *a;
      moved.path = wanted;
      moved.original.clear();
      whole_.add_attribute(std::move(moved));
    }
    return wanted;
  }

  std::string unused(std::string name) {
    for (auto const stem = name; names_.find(name) != none<std::uint32_t>;)
      name = stem + "_" + std::to_string(++repeats_);
    names_.insert(name);
    return name;
  }

  module_graph const& outer_;
  module_graph whole_;
  numbering<std::string, std::uint32_t> names_;
  std::size_t repeats_ = 0;
};

/// Replaces each call of one of `paths` by the nodes of the called piece: the inverse of splitting a
/// module_graph. Nodes keep their names where these are unique. Modules and attributes get back the paths
/// that they had before they were moved into a piece. Other calls stay, also those of modules that are
/// graphs. Expected O(size of the graphs).
inline module_graph inline_pieces(module_graph const& outer, std::vector<std::string> const& paths) {
  return piece_inliner(outer).run(paths);
}

}  // namespace cleave::detail
