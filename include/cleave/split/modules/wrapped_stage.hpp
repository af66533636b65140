// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/graph/module_names.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/split/modules/liveness.hpp"

namespace cleave::inline v0_2::detail {

/// Writes one stage together with the values that it receives and sends. Used by `wrapped_stage`.
class stage_wrapper {
 public:
  using position = module_graph::position;

  stage_wrapper(module_graph const& outer, liveness_table const& table) : outer_(outer), table_(table) {}

  module_graph wrap(std::size_t k) {
    auto const& stage = table_.stages[k];
    for (auto const v : k == 0 ? table_.inputs : stage.receives) receive(v, k == 0);
    hold(table_.value_of[stage.call], copy(stage.call));
    if (k + 1 == table_.stages.size()) {
      if (auto const output = outer_.output()) copy(*output);
    } else {
      std::vector<position> given;
      for (auto const v : stage.gives) given.push_back(find(v));
      module_node output;
      output.kind = node_kind::output;
      output.name = output.target = "output";
      output.args = {tuple_argument(given)};
      add(std::move(output));
    }
    return std::move(made_);
  }

 private:
  void receive(std::uint32_t v, bool first) {
    module_node n = outer_[table_.values[v].base];
    if (!first) {
      std::string const name = n.name;
      n = {};
      n.kind = node_kind::placeholder;
      n.name = n.target = names_.take(name);
    }
    hold(v, first ? add(std::move(n)) : made_.add(std::move(n)));
  }

  void hold(std::uint32_t v, position at) {
    if (known_.insert(v) == at_.size()) at_.push_back(at);
  }

  position add(module_node n) {
    n.name = names_.take(n.name);
    n.from = none<position>;
    n.after.clear();
    return made_.add(std::move(n));
  }

  /// Copies a node of the outer graph, with its operands and the attribute that its target names.
  position copy(position n) {
    module_node node = outer_[n];
    auto const found = [&](position v) { return find(table_.value_of[v]); };
    for (auto& a : node.args) a = map_nodes(std::move(a), found);
    for (auto& k : node.kwargs) k.value = map_nodes(std::move(k.value), found);
    if (auto const* a = outer_.find_attribute(node.target))
      if ((node.kind == node_kind::call_module || node.kind == node_kind::get_attr) &&
          !made_.find_attribute(a->path))
        made_.add_attribute(*a);
    return add(std::move(node));
  }

  /// Returns the node that has a value. Elements are taken out and state is read at the first request.
  position find(std::uint32_t v) {
    std::vector<std::uint32_t> missing;
    for (auto w = v; w != none<std::uint32_t> && known_.find(w) == none<std::uint32_t>;
         w = table_.values[w].whole)
      missing.push_back(w);
    for (; !missing.empty(); missing.pop_back())
      hold(missing.back(), copy(table_.values[missing.back()].node));
    return at_[known_.find(v)];
  }

  module_graph const& outer_;
  liveness_table const& table_;
  module_graph made_;
  module_names names_;
  numbering<std::uint32_t, std::uint32_t> known_;  // values …
  std::vector<position> at_;                       // … and the nodes that have them
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns stage `k` of `outer` as a graph for runtimes in which a stage receives only from the one before
/// it.
///
/// The graph has a placeholder for each value that the stage receives. It calls the stage, takes elements out
/// of the result, and returns the values to be sent on as one tuple. The first stage has the inputs of
/// `outer` instead, in their order and with their defaults. The last stage returns the result of `outer` in
/// its form. `table` is `liveness_of(outer)`. O(values received and sent + size of the stage).
/// \pre `k` is a stage of `table`
inline module_graph wrapped_stage(module_graph const& outer, liveness_table const& table, std::size_t k) {
  expects(k < table.stages.size(), "a stage of the table");
  return detail::stage_wrapper(outer, table).wrap(k);
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Evaluates the stages of `outer` one after another, each wrapped, and returns the result of the last.
/// `channel(k, sent)` carries the tuple that stage `k` sends to the next stage, and returns its elements as a
/// vector.
template <class Value, class I, class Channel>
  requires interpretation<I, Value>
Value evaluate_stages(module_graph const& outer, liveness_table const& table, std::vector<Value> inputs, I& i,
                      Channel channel) {
  if (table.stages.empty()) return evaluate(outer, std::move(inputs), i);
  for (std::size_t k = 0;; ++k) {
    Value sent = evaluate(wrapped_stage(outer, table, k), std::move(inputs), i);
    if (k + 1 == table.stages.size()) return sent;
    inputs = channel(k, std::move(sent));
  }
}

}  // namespace cleave::detail
