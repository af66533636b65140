// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if the result of a program does not fit the required structure. The witness is the number of leaves
/// of the structure.
using structure_error = tagged_error<struct structure_tag, std::size_t>;

/// Returns the number of constants and values in `a`, at any depth. Keys of dicts do not count.
inline std::size_t leaves_of(module_argument const& a) {
  std::size_t leaves = 0, keys = 0;
  for (auto const& t : a) {
    auto const* c = std::get_if<container>(&t);
    leaves += c == nullptr;
    keys += c != nullptr && c->what == container::kind::dict ? c->size : 0;
  }
  return leaves - keys;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns `g` with the nested result that the model had before a front end flattened it, as tracers do. The
/// i-th leaf of `structure` is replaced by the i-th element of the tuple that `g` returns. O(size of g).
/// \throws structure_error if the number of leaves differs from the number of elements
inline module_graph with_result_structure(module_graph const& g, module_argument const& structure) {
  std::vector<module_argument> elements;
  if (auto const output = g.output())
    for (auto const& a : g[*output].args) {
      auto const* c = std::get_if<container>(&a.front());
      if (!c || c->what == container::kind::dict) {
        elements.push_back(a);
        continue;
      }
      for (std::size_t at = 1; at < a.size();) {
        auto const end = detail::subtree_end(a, at);
        elements.emplace_back(a.begin() + static_cast<std::ptrdiff_t>(at),
                              a.begin() + static_cast<std::ptrdiff_t>(end));
        at = end;
      }
    }
  if (auto const leaves = detail::leaves_of(structure); leaves != elements.size())
    throw detail::structure_error("the structure of the result has " + std::to_string(leaves) +
                                      " leaves, the program returns " + std::to_string(elements.size()) +
                                      " values",
                                  leaves);

  module_argument result;
  std::vector<std::pair<std::size_t, bool>> open;  // containers: missing subtrees; true for a dict
  for (std::size_t next = 0; auto const& t : structure) {
    bool const key = !open.empty() && open.back().second && open.back().first % 2 == 0;
    if (!open.empty()) --open.back().first;
    auto const* c = std::get_if<container>(&t);
    if (c || key)
      result.push_back(t);
    else
      result.insert(result.end(), elements[next].begin(), elements[next].end()), ++next;
    if (c) open.emplace_back(elements_of(*c), c->what == container::kind::dict);
    while (!open.empty() && open.back().first == 0) open.pop_back();
  }

  module_graph shaped;
  shaped.reserve(g.list().size());
  for (auto n : g.list()) {
    if (n.kind == node_kind::output) n.args = {result};
    shaped.add(std::move(n));
  }
  for (auto const& a : g.attributes()) shaped.add_attribute(a);
  shaped.metadata = g.metadata;
  return shaped;
}

}  // namespace cleave
