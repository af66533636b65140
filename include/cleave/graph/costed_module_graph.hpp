// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/carried_label.hpp"
#include "cleave/graph/module_graph.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if the metadata of a node has an invalid cost, size, mark or label. The witness is the node.
using cost_error = tagged_error<struct cost_tag, module_graph::position>;

/// The cost of a node of a module graph and the size of its result, from the node's metadata.
struct module_cost {
  std::optional<double> cost;  ///< `cost`, a number
  std::size_t bytes = 0;       ///< `bytes`, an integer; 0 if absent
  bool replicable = false;     ///< `replicable`
};

/// Returns the cost, the size and the mark in the metadata of node `n`.
/// \throws cost_error if a cost is not a finite number from 0 up, a size not an integer from 0 up, or the
/// mark neither true nor false
inline module_cost cost_of(module_graph const& g, module_graph::position n) {
  auto const refuse = [&](std::string const& key, std::string const& kind) {
    throw cost_error("node " + quoted(g[n].name) + ": its metadata '" + key + "' must be " + kind, n);
  };
  module_cost known;
  for (auto const& [key, value] : g[n].metadata) {
    if (key == "replicable") {
      auto const* mark = value.size() == 1 ? std::get_if<bool>(&value.front()) : nullptr;
      if (!mark) refuse(key, "true or false");
      known.replicable = *mark;
    }
    if (key != "cost" && key != "bytes") continue;
    auto const* whole = value.size() == 1 ? std::get_if<std::int64_t>(&value.front()) : nullptr;
    auto const* real = value.size() == 1 ? std::get_if<double>(&value.front()) : nullptr;
    if (key == "cost") {
      double const x = whole ? static_cast<double>(*whole) : real ? *real : -1;
      if (!(x >= 0) || x - x != 0) refuse(key, "a finite number from 0, such as 12.5");
      known.cost = x;
    } else {
      if (!whole || *whole < 0) refuse(key, "an integer from 0, such as 4096");
      known.bytes = static_cast<std::size_t>(*whole);
    }
  }
  return known;
}

/// Returns for each node of a graph the node whose value becomes it in the next run, by the `carried` of
/// placeholders, or none. The list is empty if there are no such placeholders. O(size).
/// \throws cost_error if a label means no call and no placeholder
inline std::vector<module_graph::position> carried_nodes(module_graph const& g) {
  if (!has_carried_label(g)) return {};
  labelled_nodes const nodes(g);
  std::vector<module_graph::position> made(g.list().size(), none<module_graph::position>);
  for (auto const v : g.inputs())
    if (auto const* label = find_carried_label(g[v])) {
      auto const present = nodes.find(*label);
      if (!present || !can_be_carried(g[*present]))
        throw cost_error("node " + quoted(g[v].name) +
                             ": its metadata 'carried' must be the name of one call or placeholder, or its "
                             "number",
                         v);
      made[v] = *present;
    }
  return made;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A module_graph with the costs of its nodes, read from their metadata: `cost`, a number; `bytes`, an
/// integer, the size of the result; `replicable`, true for a node that each stage that needs it may run
/// again; and, of a placeholder, `carried`, the name or number of the node whose value becomes it in the next
/// run. In addition to the concepts of `module_graph` it models `weighted_graph`, `sized_graph`,
/// `replicating_graph` and `carrying_graph`. A node without `cost` costs nothing. The result of a node
/// without `bytes` has an unknown size.
class costed_module_graph : public module_graph {
 public:
  /// Reads the metadata of all nodes.
  /// \throws cost_error if a cost is not a finite number from 0 up, a size not an integer from 0 up,
  /// `replicable` neither true nor false, or `carried` the label of no call and no placeholder
  explicit costed_module_graph(module_graph g)
      : module_graph(std::move(g)), carried_(detail::carried_nodes(*this)) {
    for (position n = 0; n < list().size(); ++n) {
      auto const known = detail::cost_of(*this, n);
      cost_.push_back(known.cost.value_or(0));
      bytes_.push_back(known.bytes);
      replicable_.push_back(known.replicable);
      has_costs_ |= known.cost.has_value();
    }
  }

  double weight(position n) const { return cost_[n]; }
  std::size_t bytes(position v) const { return bytes_[v]; }
  bool replicable(position n) const { return replicable_[n] != 0; }
  /// Returns the node whose value becomes the input `v` in the next run, or nothing.
  std::span<position const> carried(position v) const {
    if (carried_.empty() || carried_[v] == none<position>) return {};
    return {&carried_[v], 1};
  }
  /// Returns whether any input is a value of the run before.
  bool carries() const { return !carried_.empty(); }
  /// Returns true if any node has a cost in its metadata.
  bool has_costs() const { return has_costs_; }

 private:
  std::vector<double> cost_;        // by position
  std::vector<std::size_t> bytes_;  // by position
  std::vector<char> replicable_;    // by position
  std::vector<position> carried_;   // by position; empty if no input is a value of the run before
  bool has_costs_ = false;
};

}  // namespace cleave
