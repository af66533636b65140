// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/backward/backward_graph.hpp"
#include "cleave/backward/backward_phases.hpp"
#include "cleave/engine/framework.hpp"
#include "cleave/engine/trace_stages.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/tape_pass.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_batches.hpp"
#include "support/toy_memory.hpp"

namespace cleave::testing {

/// A tensor of doubles in the memory of the executor, and its node on a tape if it needs a gradient.
struct toy_value {
  std::shared_ptr<tensor const> of;
  std::shared_ptr<owned_tensor const> memory;  ///< the same elements in their type
  std::shared_ptr<testing::tape> on = {};
  std::optional<std::uint32_t> node = {};

  explicit toy_value(std::shared_ptr<tensor const> t, element_type type = element_type::f64)
      : of(std::move(t)), memory(std::make_shared<owned_tensor const>(owned(*of, type))) {}
  explicit toy_value(tensor t, element_type type = element_type::f64)
      : toy_value(std::make_shared<tensor const>(std::move(t)), type) {}
};

/// The toys' tensors, tapes and operators as a framework for a stage engine.
class toy_framework {
 public:
  using tensor = toy_value;

  tensor_view view(tensor const& t) { return t.memory->view; }
  tensor wrap(tensor_view const& v) { return tensor(read_elements(v), v.type); }
  tensor copy(tensor const& t) { return tensor(*t.of, t.memory->view.type); }
  tensor filled(tensor const& t, double x) {
    return tensor(testing::tensor::filled(t.of->shape, x), t.memory->view.type);
  }
  void write(tensor const& t, tensor_view const& v) { write_elements(*t.of, v); }
  void add(tensor const& t, tensor_view const& v, double x) {
    write_elements(read_elements(v) + x * *t.of, v);
  }
  void fill(tensor_view const& v, double x) {
    write_elements(testing::tensor::filled(read_elements(v).shape, x), v);
  }

  void begin(stage_pass const&) { tape_ = std::make_shared<tape>(); }
  model_value<tensor> call(operator_call<tensor> const& c) {
    if (!tape_) tape_ = std::make_shared<tape>();
    tape_values args, kwargs;
    for (auto const& a : c.args) args.push_back(as_tape_value(a));
    for (auto const& a : c.kwargs) kwargs.push_back(as_tape_value(a));
    return as_model_value(call_operator(*tape_, c.node, args, kwargs));
  }

  tensor leaf(tensor t) {
    if (!tape_) tape_ = std::make_shared<tape>();
    t.node = tape_->leaf("leaf", *t.of).node;
    t.on = tape_;
    return t;
  }
  bool needs_gradient(tensor const& t) { return t.on != nullptr; }
  std::vector<std::optional<tensor>> gradients(std::vector<tensor> const& results,
                                               std::vector<tensor> const& at_results,
                                               std::vector<tensor> const& wanted, bool) {
    std::vector<std::optional<tensor>> found(wanted.size());
    if (results.empty()) return found;
    auto const arrived =
        results.front().on->flow(seeds(results, at_results), [](auto, auto) { return true; });
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (auto const at = arrived.find(*wanted[i].node); at != arrived.end()) found[i] = tensor(at->second);
    return found;
  }

  /// A backward pass in two halves.
  class halves {
   public:
    halves(std::shared_ptr<tape> t, gradient_seeds const& seeds, std::vector<std::uint32_t> inputs,
           std::vector<std::uint32_t> parameters)
        : tape_(std::move(t)), inputs_(std::move(inputs)), parameters_(std::move(parameters)) {
      if (!tape_) return;
      std::vector<std::uint32_t> outputs;
      for (auto const& [node, g] : seeds)
        if (std::ranges::find(outputs, node) == outputs.end()) outputs.push_back(node);
      auto const reached = reached_from(*tape_, outputs);
      auto const among = [&](std::vector<std::uint32_t> const& list) {
        std::vector<std::uint32_t> made;
        for (auto const n : list)
          if (std::ranges::find(reached, n) != reached.end()) made.push_back(n);
        return made;
      };
      snapshot_ = std::make_unique<backward_snapshot<tape_pass>>(
          backward_snapshot_of(tape_pass(*tape_, outputs, among(inputs_), among(parameters_))));
      phases_ = backward_phases_of(*snapshot_);
      runner_.emplace(*tape_, *snapshot_);
      for (auto const& [node, g] : seeds) runner_->seed(snapshot_->node.find(node), g);
    }
    std::vector<std::optional<tensor>> inputs() {
      std::vector<std::optional<tensor>> found(inputs_.size());
      if (!tape_) return found;
      runner_->run_input_phase(phases_);
      for (std::size_t i = 0; i < found.size(); ++i)
        if (auto const n = snapshot_->node.find(inputs_[i]); n != none<std::uint32_t>)
          if (auto const& g = runner_->arrived()[n]) found[i] = tensor(*g);
      return found;
    }
    std::vector<std::optional<tensor>> parameters() {
      std::vector<std::optional<tensor>> found(parameters_.size());
      if (!tape_) return found;
      for (auto const& unit : phases_.weight) {
        auto const arrived = runner_->run_unit(unit);
        for (auto const n : unit.parameters) {
          auto const at = std::ranges::find(parameters_, snapshot_->node[n]) - parameters_.begin();
          if (arrived[n]) found[static_cast<std::size_t>(at)] = tensor(*arrived[n]);
        }
      }
      return found;
    }

   private:
    std::shared_ptr<tape> tape_;
    std::vector<std::uint32_t> inputs_, parameters_;
    std::unique_ptr<backward_snapshot<tape_pass>> snapshot_;
    backward_phases phases_;
    std::optional<phase_runner> runner_;
  };
  halves split(std::vector<tensor> const& results, std::vector<tensor> const& at_results,
               std::vector<tensor> const& inputs, std::vector<tensor> const& parameters) {
    auto const nodes = [](std::vector<tensor> const& list) {
      std::vector<std::uint32_t> made;
      for (auto const& t : list) made.push_back(*t.node);
      return made;
    };
    return {results.empty() ? nullptr : results.front().on, seeds(results, at_results), nodes(inputs),
            nodes(parameters)};
  }

 private:
  static gradient_seeds seeds(std::vector<tensor> const& results, std::vector<tensor> const& at_results) {
    gradient_seeds made;
    for (std::size_t i = 0; i < results.size(); ++i) made.emplace_back(*results[i].node, *at_results[i].of);
    return made;
  }

  static tape_value as_tape_value(model_value<tensor> const& v) {
    if (auto const* t = v.tensor()) {
      tape_value made;
      made.what = tape_value::kind::tensor;
      made.of = t->of;
      made.node = t->node;
      return made;
    }
    if (auto const* c = v.constant()) return {tape_value::kind::constant, *c};
    tape_values items;
    for (auto const& e : v.elements()) items.push_back(as_tape_value(e));
    auto made = composite_of(v.outer()->what, std::move(items));
    made.shape = *v.outer();
    return made;
  }
  model_value<tensor> as_model_value(tape_value const& v) {
    if (v.what == tape_value::kind::constant) return v.text;
    if (v.what == tape_value::kind::tensor) {
      tensor t(v.of);
      t.node = v.node;
      if (v.node) t.on = tape_;
      return t;
    }
    std::vector<model_value<tensor>> items;
    for (auto const& i : *v.items) items.push_back(as_model_value(i));
    return {v.shape, items};
  }

  std::shared_ptr<tape> tape_;  // of the current pass
};
static_assert(differentiating_framework<toy_framework>);

using toy_inputs = model_inputs<toy_value>;

/// Returns microbatches as arguments of `g`. Element types are those in the placeholders' metadata `dtype`,
/// else f64.
inline std::vector<toy_inputs> inputs_of(module_graph const& g, toy_batches const& batches) {
  using value = model_value<toy_value>;
  std::vector<toy_inputs> made;
  for (auto const& m : batches.values) {
    std::vector<nested<value>> arguments;
    for (std::size_t i = 0; i < m.size(); ++i) {
      auto type = element_type::f64;
      for (auto const& [key, argument] : g[g.inputs()[i]].metadata)
        if (auto const* text = key == "dtype" ? std::get_if<std::string>(&argument.front()) : nullptr)
          type = find_element_type(*text).value_or(type);
      arguments.emplace_back(value(toy_value(m[i].of, type)));
    }
    made.push_back({.arguments = nested<value>::tuple(std::move(arguments))});
  }
  return made;
}

/// Returns a function that gives the state by name to a stage engine.
inline auto initial_state(state_values const& state) {
  return [state](std::string const& name) {
    auto const at = state.find(name);
    if (at == state.end()) throw unknown_target_error("no value for state '" + name + "'");
    return toy_value(at->second);
  };
}
using initial_toy_state = decltype(initial_state(state_values()));

}  // namespace cleave::testing
