// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/core/printable.hpp"
#include "cleave/graph/concepts.hpp"

namespace cleave {

/// What messages call a node: its name, fit for a terminal, and position, `conv1 (#4)`, or `#4` where it has
/// no name.
inline std::string label(std::string_view name, std::size_t position) {
  auto const at = "#" + std::to_string(position);
  return name.empty() ? at : printable(name) + " (" + at + ")";
}

template <class Graph>
std::string label(Graph const& g, node_t<Graph> const& n, std::size_t position) {
  if constexpr (named_graph<Graph>)
    return label(std::string_view(g.name(n)), position);
  else
    return label(std::string_view(), position);
}
}  // namespace cleave
