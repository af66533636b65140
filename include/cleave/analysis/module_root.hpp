// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <variant>

#include "cleave/analysis/liveness.hpp"
#include "cleave/analysis/stage_root.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave {

/// The first node of `g` that no stage_root has a place for, or nothing. Called modules are stages, and
/// `getitem(value, number)` reads an element. O(V).
inline std::optional<root_fault> find_root_fault(module_graph const& g) {
  using enum root_fault::kind;
  if (auto const n = find_work_between_stages(g))
    return root_fault{g[*n].target == "getitem" ? malformed_element : work_between_stages, *n};
  for (auto const n : g.nodes()) {
    if (g[n].kind == node_kind::call_module) continue;
    auto const* at = std::get_if<std::int64_t>(&g[n].args[1].front());
    if (!at || *at < 0) return root_fault{malformed_element, n};
    auto const shown = std::min<std::int64_t>(*at, none<std::uint32_t>);
    if (*at >= widest_tuple) return root_fault{wide_element, n, static_cast<std::uint32_t>(shown)};
  }
  return std::nullopt;
}

/// `g` as a root: its nodes are the values. O(V + E).
/// \throws backward_error
inline stage_root stage_root_of(module_graph const& g) {
  if (auto const f = find_root_fault(g))
    throw backward_error(root_fault_text(*f, [&](auto n) { return "node " + quoted(g[n].name); }), *f);
  stage_root root;
  for (module_graph::position n = 0; n < g.list().size(); ++n) {
    auto const& node = g[n];
    if (node.kind == node_kind::placeholder)
      root.add(root_kind::input);
    else if (node.kind == node_kind::call_module)
      root.add(root_kind::stage, g.operands(n));
    else if (node.kind == node_kind::call_function)
      root.add(root_kind::element, g.operands(n),
               static_cast<std::uint32_t>(std::get<std::int64_t>(node.args[1].front())));
    else
      root.add(root_kind::other);
  }
  return root;
}

}  // namespace cleave
