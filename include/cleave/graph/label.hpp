// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"

namespace cleave::inline v0_2 {

/// Returns the label of a node in messages: its name in a form fit for a terminal, and its position. An
/// example is `conv1 (#4)`, or `#4` if the node has no name.
inline std::string label(std::string_view name, std::size_t position) {
  auto const at = "#" + std::to_string(position);
  return name.empty() ? at : printable(name) + " (" + at + ")";
}

/// Returns the label of node `n` of `g`, which is at `position` in `nodes()`.
template <class Graph>
std::string label(Graph const& g, node_t<Graph> const& n, std::size_t position) {
  if constexpr (named_graph<Graph>)
    return label(std::string_view(g.name(n)), position);
  else
    return label(std::string_view(), position);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the label of node `n`, whose name is row `n` of a table of characters; an absent row is no name.
template <class Table>
std::string label_of_row(Table const& names, std::size_t n) {
  auto const text = names[n];
  return label(std::string_view(text.data(), text.size()), n);
}

}  // namespace cleave::detail
