// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>

#include "conformance_runner/read_graph.hpp"

/// The graphs of a split in the form of the recordings.
namespace cleave::conformance {

/// Writes a graph of the split. `from` of a node names the original node that it stands for, if there is one.
inline json write_piece(module_graph const& whole, module_graph const& piece) {
  json list = write_nodes(piece);
  for (std::size_t n = 0; n < list.size(); ++n) {
    auto& j = list[n];
    j.erase("meta");
    if (j["op"] == "output") j.erase("target");
    if (auto const from = piece[static_cast<position>(n)].from; from < whole.list().size())
      j["from"] = whole[from].name;
  }
  return list;
}

inline json sorted(json list) {
  std::sort(list.begin(), list.end());
  return list;
}

inline json write_children(module_graph const& piece) {
  json children = json::array();
  for (auto const& a : piece.attributes())
    if (a.what == module_attribute::kind::module)
      children.push_back({a.path, a.original.empty() ? a.path : a.original});
  return sorted(children);
}

/// Returns the first parts of the outer graph's paths, each once. A tensor counts only below a container.
inline json write_outer_children(module_graph const& outer) {
  json children = json::array();
  for (auto const& a : outer.attributes()) {
    auto const dot = a.path.find('.');
    json const first = a.path.substr(0, dot);
    if (a.what != module_attribute::kind::module && dot == a.path.npos) continue;
    if (std::ranges::find(children, first) == children.end()) children.push_back(first);
  }
  return children;
}

/// Converts a recorded result to our form; `outer` is its name for the outer graph.
inline json normal_result(json expect, char const* outer) {
  for (auto& s : expect["submodules"]) {
    s["nodes"] = normal_nodes(s["nodes"]);
    s["children"] = sorted(s["children"]);
  }
  expect[outer] = normal_nodes(expect[outer]);
  return expect;
}

}  // namespace cleave::conformance
