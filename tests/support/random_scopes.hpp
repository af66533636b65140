// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_scopes.hpp"
#include "support/rng.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns two bracket scopes and two setting scopes, with targets that `state_simulation` knows.
inline std::vector<module_scope> four_scopes(scope_policy policy) {
  return {{{"autocast", policy}, "_enter_autocast", "_exit_autocast"},
          {{"range", policy}, "_enter_range", "_exit_range"},
          {{"gradient mode", policy}, {}, {}, "_set_grad_enabled"},
          {{"device", policy}, {}, {}, "_set_device"}};
}

/// Returns `g` with marks of `four_scopes` between its calls, at one place in `rarity`. The marks nest, cross
/// and follow each other.
inline module_graph with_random_marks(rng& random, module_graph const& g, std::size_t rarity) {
  using position = module_graph::position;
  module_graph marked;
  std::vector<position> at(g.list().size()), open;
  std::size_t made = 0;
  auto const mark = [&](std::string target, std::vector<module_argument> args) {
    module_node n;
    n.name = "mark" + std::to_string(made++);
    n.target = std::move(target);
    n.args = std::move(args);
    return marked.add(std::move(n));
  };
  auto const leave = [&](std::size_t i) {
    bool const range = marked[open[i]].target == "_enter_range";
    mark(range ? "_exit_range" : "_exit_autocast", {node_argument(open[i])});
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(i));
  };
  for (position n = 0; n < g.list().size(); ++n) {
    bool const last = g[n].kind == node_kind::output;
    while (last && !open.empty()) leave(open.size() - 1);
    while (module_graph::is_call(g[n]) && random.one_in(rarity)) {
      auto const what = random.below(5);
      if (what < 2) open.push_back(mark(what == 0 ? "_enter_autocast" : "_enter_range", {{true}}));
      if (what == 2) mark("_set_grad_enabled", {{random.one_in(2)}});
      if (what == 3) mark("_set_device", {{static_cast<std::int64_t>(random.below(3))}});
      if (what == 4 && !open.empty()) leave(random.one_in(2) ? open.size() - 1 : random.below(open.size()));
    }
    auto copy = g[n];
    auto const moved = [&](position m) { return at[m]; };
    for (auto& a : copy.args) a = map_nodes(std::move(a), moved);
    for (auto& k : copy.kwargs) k.value = map_nodes(std::move(k.value), moved);
    if (module_graph::is_call(copy) && !open.empty() && random.one_in(8))
      copy.kwargs.push_back({"under", node_argument(open[random.below(open.size())])});
    at[n] = marked.add(std::move(copy));
  }
  for (auto const& a : g.attributes()) marked.add_attribute(a);
  return marked;
}

}  // namespace cleave::testing
