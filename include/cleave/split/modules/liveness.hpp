// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/numbering.hpp"

/// The liveness of values in a chain of stages, where each stage receives only from the one before it. A
/// value that a later stage needs travels through all stages between. Values are identified by their
/// producers, never by their names.
namespace cleave::inline v0_2 {

/// A value between stages: an input, the result of a stage, or an element of another such value.
struct live_value {
  using position = module_graph::position;

  position base;        ///< the placeholder, attribute or stage call that it comes from
  position node;        ///< a node of the outer graph that has this value
  std::uint32_t whole;  ///< for an element: the value that contains it; otherwise none
  std::string name;     ///< the target of `base`, then `.key` for each access of an element, outermost first
};

/// The values that one stage receives and sends. Values are positions in `liveness_table::values`.
struct stage_liveness {
  /// The node of the outer graph that calls the stage.
  module_graph::position call;
  std::vector<std::uint32_t> arguments;  ///< values that the stage itself reads, in order, repeats included
  std::vector<std::uint32_t> receives;   ///< the arguments, then values that only later stages need
  std::vector<std::uint32_t> passes;     ///< received values that it sends on
  std::vector<std::uint32_t> gives;      ///< values that it sends on; the last stage: the graph's results
};

/// The values of a chain of stages, and their way through each stage.
struct liveness_table {
  std::vector<live_value> values;
  std::vector<std::uint32_t> inputs;    ///< the graph's inputs, in order
  std::vector<std::uint32_t> value_of;  ///< by node of the outer graph: its value; none for the output
  std::vector<stage_liveness> stages;

  /// Returns true if the first stage receives exactly the graph's inputs, in their order.
  bool inputs_in_order() const { return stages.empty() || stages.front().receives == inputs; }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Thrown if a node of an outer graph is neither a stage nor the access of an element by a constant key. The
/// witness is the node.
using liveness_error = tagged_error<struct liveness_tag, module_graph::position>;

/// Returns the first call of `outer` that is neither a stage nor the access of an element, `getitem(value,
/// constant)`. Every called module is a stage. O(V).
inline std::optional<module_graph::position> find_work_between_stages(module_graph const& outer) {
  for (auto const n : outer.nodes()) {
    auto const& node = outer[n];
    if (node.kind == node_kind::call_module) continue;
    bool const reads = node.kind == node_kind::call_function && node.target == "getitem" &&
                       node.args.size() == 2 && node.kwargs.empty() && node.args[0].size() == 1 &&
                       std::holds_alternative<node_ref>(node.args[0].front()) && node.args[1].size() == 1 &&
                       !std::holds_alternative<node_ref>(node.args[1].front()) &&
                       !std::holds_alternative<container>(node.args[1].front());
    if (!reads) return n;
  }
  return std::nullopt;
}

/// Builds a liveness table. Used by `liveness_of`.
class liveness_maker {
 public:
  using position = module_graph::position;

  explicit liveness_maker(module_graph const& outer)
      : g_(outer), value_(outer.list().size(), none<std::uint32_t>) {}

  liveness_table make() {
    for (position n = 0; n < g_.list().size(); ++n) {
      auto const& node = g_[n];
      if (node.kind == node_kind::output) continue;
      bool const element = node.kind == node_kind::call_function;
      value_[n] =
          element ? element_of(n, value_[std::get<node_ref>(node.args[0].front()).node], node.args[1].front())
                  : add({n, n, none<std::uint32_t>, node.target});
      if (node.kind == node_kind::placeholder) table_.inputs.push_back(value_[n]);
      if (node.kind == node_kind::call_module) table_.stages.push_back({n, values_of(n), {}, {}, {}});
    }
    sweep();
    tell_namesakes_apart();
    table_.value_of = std::move(value_);
    return std::move(table_);
  }

 private:
  std::uint32_t add(live_value v) {
    table_.values.push_back(std::move(v));
    return static_cast<std::uint32_t>(table_.values.size() - 1);
  }

  /// Returns the value of element `key` of `whole`. All nodes that read the same element have the same value.
  std::uint32_t element_of(position n, std::uint32_t whole, token const& key) {
    std::string text = "?";
    if (auto const* i = std::get_if<std::int64_t>(&key)) text = std::to_string(*i);
    if (auto const* b = std::get_if<bool>(&key)) text = *b ? "True" : "False";
    if (auto const* d = std::get_if<double>(&key)) text = std::to_string(*d);
    if (auto const* s = std::get_if<std::string>(&key)) text = *s;
    if (auto const* o = std::get_if<opaque>(&key)) text = o->kind + " " + o->text;
    auto const at = elements_.insert(std::to_string(whole) + "." + std::to_string(key.index()) + "." + text);
    if (at == element_.size())
      element_.push_back(add({table_.values[whole].base, n, whole, table_.values[whole].name + "." + text}));
    return element_[at];
  }

  std::vector<std::uint32_t> values_of(position n) const {
    std::vector<std::uint32_t> list;
    for (auto const v : g_.operands(n)) list.push_back(value_[v]);
    return list;
  }

  /// Finds the live values, from the last stage to the first. `live` has the values that later stages need,
  /// in the order in which this sweep first meets them. Values that the graph returns come first.
  void sweep() {
    std::vector<char> is_live(table_.values.size());
    std::vector<std::uint32_t> live, seen(table_.values.size(), none<std::uint32_t>);
    auto const need = [&](std::uint32_t v) {
      if (!std::exchange(is_live[v], 1)) live.push_back(v);
    };
    for (auto const v : g_.outputs())
      if (g_[table_.values[value_[v]].base].kind != node_kind::get_attr) need(value_[v]);
    for (auto k = static_cast<std::uint32_t>(table_.stages.size()); k-- > 0;) {
      auto& stage = table_.stages[k];
      stage.gives = live;
      for (auto const v : stage.arguments) need(v);
      std::erase_if(live, [&](std::uint32_t v) {
        return table_.values[v].base == stage.call && std::exchange(is_live[v], 0);
      });
      stage.receives = stage.arguments;
      for (auto const v : stage.arguments) seen[v] = k;
      for (auto const v : live)
        if (seen[v] != k) stage.receives.push_back(v);
      if (k + 1 < table_.stages.size()) stage.gives = table_.stages[k + 1].receives;
      for (auto const v : stage.gives)
        if (table_.values[v].base != stage.call) stage.passes.push_back(v);
    }
  }

  /// Appends the producer to each name that two values share: `(input)`, `(state)` or `(stage 3)`.
  void tell_namesakes_apart() {
    numbering<std::string, std::uint32_t> names;
    std::vector<std::uint32_t> bearers;
    for (auto const& v : table_.values) {
      auto const at = names.insert(v.name);
      if (at == bearers.size()) bearers.push_back(0);
      ++bearers[at];
    }
    std::vector<std::uint32_t> stage_of(g_.list().size());
    for (std::uint32_t k = 0; k < table_.stages.size(); ++k) stage_of[table_.stages[k].call] = k;
    for (auto& v : table_.values) {
      if (bearers[names.find(v.name)] == 1) continue;
      auto const kind = g_[v.base].kind;
      v.name += kind == node_kind::placeholder ? " (input)"
                : kind == node_kind::get_attr  ? " (state)"
                                               : " (stage " + std::to_string(stage_of[v.base]) + ")";
    }
  }

  module_graph const& g_;
  liveness_table table_;
  std::vector<std::uint32_t> value_;  // by node
  numbering<std::string, std::uint32_t> elements_;
  std::vector<std::uint32_t> element_;  // by entry of `elements_`: its value
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the liveness of the values of `outer`, whose called modules are the stages, in their order. State
/// that the graph returns is not sent. Expected O(V + E + size of the table).
/// \throws liveness_error if a node is neither a stage nor the access of an element by a constant key
inline liveness_table liveness_of(module_graph const& outer) {
  if (auto const n = detail::find_work_between_stages(outer))
    throw detail::liveness_error(
        "liveness: node " + quoted(outer[*n].name) + " (" + printable(outer[*n].target) +
            ") is neither a call of a stage nor a getitem with a constant key; move it into a stage",
        *n);
  return detail::liveness_maker(outer).make();
}

}  // namespace cleave
