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

/// What a module_graph does to the state around its calls when it is run, pieces included: written against
/// targets that begin with `_enter_`, `_exit_` and `_set_`, without the library's scopes.
namespace cleave::testing {

using namespace detail;

/// Whether the positions of a graph are those of the original, or `from` says them.
enum class numbered : bool { as_original, by_from };

/// A state: what was last set, by target, and the entries of the original that are open.
struct simulated_state {
  std::map<std::string, token> set;
  std::vector<module_graph::position> open;

  bool operator==(simulated_state const&) const = default;
};

class state_simulation {
 public:
  using position = module_graph::position;

  state_simulation(module_graph const& g, numbered how) : by_from_(how == numbered::by_from) { run(g); }

  std::map<position, simulated_state> at;  ///< of a call of the original that is no mark: its state
  simulated_state left;                    ///< at the end
  std::vector<std::string> faults;         ///< exits of what is not open

 private:
  void run(module_graph const& g) {
    std::map<position, position> entered;  // the entry of the original, by what g has of it
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
