// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/module_graph.hpp"

/// Simulates the global state around the calls of a module_graph, bodies included. It knows targets that
/// begin with `_enter_`, `_exit_` and `_set_`, and does not use the library's scopes.
namespace cleave::testing {

using namespace detail;

/// Selects how nodes map to the original: by their own position, or by `from`.
enum class numbered : bool { as_original, by_from };

/// A state: the last setting of each target, and the open entries of the original.
struct simulated_state {
  std::map<std::string, token> set;
  std::vector<module_graph::position> open;

  bool operator==(simulated_state const&) const = default;
};

class state_simulation {
 public:
  using position = module_graph::position;

  state_simulation(module_graph const& g, numbered how) : by_from_(how == numbered::by_from) { run(g); }

  std::map<position, simulated_state> at;  ///< the state at each call of the original that is not a mark
  simulated_state left;                    ///< the state at the end
  std::vector<std::string> faults;         ///< exits without an open entry

 private:
  void run(module_graph const& g) {
    std::map<position, position> entered;  // the original's entry, by the entry of g
    for (auto const n : g.inputs()) entered[n] = g[n].from;
    for (auto const n : g.nodes()) {
      auto const& node = g[n];
      if (auto const* a = node.kind == node_kind::call_module ? g.find_attribute(node.target) : nullptr;
          a && !a->body.empty()) {
        run(a->body.front());
        continue;
      }
      position const original = by_from_ ? node.from : n;
      if (node.target.starts_with("_enter_")) {
        entered[n] = original;
        left.open.push_back(original);
        std::ranges::sort(left.open);
      } else if (node.target.starts_with("_exit_")) {
        auto const of = entered.find(std::get<node_ref>(node.args.at(0).at(0)).node);
        if (of == entered.end() || std::erase(left.open, of->second) != 1) faults.push_back(node.name);
      } else if (node.target.starts_with("_set_")) {
        left.set[node.target] = node.args.at(0).at(0);
      } else if (original != none<position>) {
        at[original] = left;
      }
    }
  }

  bool by_from_;
};

}  // namespace cleave::testing
