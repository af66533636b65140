// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// In the metadata of a placeholder, `carried` is the label of the node whose value becomes this input in the
/// next run: its name if no other node has it, or its position.
namespace cleave::inline v0_2::detail {

inline constexpr char carried_key[] = "carried";

/// Returns the label in the metadata of a placeholder, or null.
inline module_argument const* find_carried_label(module_node const& n) {
  if (n.kind != node_kind::placeholder) return nullptr;
  for (auto const& [key, value] : n.metadata)
    if (key == carried_key) return &value;
  return nullptr;
}

/// Returns whether any placeholder of a graph has such a label. O(placeholders).
inline bool has_carried_label(module_graph const& g) {
  for (auto const v : g.inputs())
    if (find_carried_label(g[v]) != nullptr) return true;
  return false;
}

/// Finds the nodes of a graph that labels mean. The graph must outlive it.
class labelled_nodes {
 public:
  using position = module_graph::position;

  explicit labelled_nodes(module_graph const& g) : g_(&g) {
    names_.reserve(g.list().size());
    for (position n = 0; n < g.list().size(); ++n) {
      auto const known = names_.size();
      if (auto const at = names_.insert(g[n].name); at < known)
        is_repeated_[at] = 1;
      else
        places_.push_back(n), is_repeated_.push_back(0);
    }
  }

  /// Returns the node, or nothing if no node or several have the label.
  std::optional<position> find(module_argument const& label) const {
    if (label.size() != 1) return std::nullopt;
    if (auto const* number = std::get_if<std::int64_t>(&label.front())) {
      bool const is_node = *number >= 0 && std::cmp_less(*number, g_->list().size());
      return is_node ? std::optional(static_cast<position>(*number)) : std::nullopt;
    }
    auto const* name = std::get_if<std::string>(&label.front());
    auto const at = name != nullptr ? names_.find(*name) : none<position>;
    if (at == none<position> || is_repeated_[at] != 0) return std::nullopt;
    return places_[at];
  }
  /// Returns the label of a node.
  module_argument of(position n) const {
    if (is_repeated_[names_.find((*g_)[n].name)] != 0) return {static_cast<std::int64_t>(n)};
    return {(*g_)[n].name};
  }

 private:
  module_graph const* g_;
  numbering<std::string_view, position> names_;
  std::vector<position> places_;   // of each name: the first node that has it
  std::vector<char> is_repeated_;  // of each name: several nodes have it
};

/// Returns whether a node can become an input in the next run: a call or a placeholder.
inline bool can_be_carried(module_node const& n) {
  return module_graph::is_call(n) || n.kind == node_kind::placeholder;
}

/// Makes the labels of a graph that has nodes of `whole` mean its own nodes. `original[n]` is the position in
/// `whole` of its node n, or none; `made(m)` returns where node m of `whole` is, or nothing. A label of a
/// node that is not there is removed. O(nodes of both).
template <class F>
void rename_carried_labels(module_graph& g, std::vector<module_graph::position> const& original,
                           module_graph const& whole, F made) {
  labelled_nodes const here(g), there(whole);
  for (auto const n : g.inputs()) {
    auto const* label = find_carried_label(g[n]);
    if (label == nullptr) continue;
    auto const from = n < original.size() ? original[n] : none<module_graph::position>;
    bool const is_input = from < whole.list().size() && whole[from].kind == node_kind::placeholder;
    auto const present = is_input ? there.find(*label) : std::nullopt;
    auto const at = present ? made(*present) : std::nullopt;
    auto& metadata = g.metadata_of(n);
    if (at)
      std::ranges::find(metadata, carried_key, &keyword_argument::key)->value = here.of(*at);
    else
      std::erase_if(metadata, [](keyword_argument const& m) { return m.key == carried_key; });
  }
}

}  // namespace cleave::detail
