// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/stage_backward.hpp"
#include "cleave/backward/with_backward.hpp"
#include "cleave/graph/interpreter.hpp"
#include "support/toy_autograd.hpp"
#include "support/toy_gradients.hpp"

namespace cleave::testing {

using namespace detail;

/// Returns `g` without module bodies, so that its calls are evaluated as calls.
inline module_graph without_bodies(module_graph const& g) {
  module_graph made;
  for (auto const& n : g.list()) made.add(n);
  for (auto const& a : g.attributes())
    made.add_attribute({a.path, a.what, a.storage, {}, a.original, a.metadata});
  return made;
}

/// Runs the outer graph of a pipe as several devices would. Each stage has a copy of the state that it reads.
/// Inputs of a stage are detached from their producer, so gradients pass between stages only through the
/// graph's `stage_backward` and `null_coalesce_accumulate`.
class staged_autograd {
 public:
  /// `states` is by stage path; a stage not in it uses `others`.
  staged_autograd(tape& t, module_graph const& outer, state_values const& others,
                  std::map<std::string, state_values> const* states = nullptr)
      : tape_(&t), outer_(&outer), calls_(without_bodies(outer)), others_(&others), states_(states) {}

  /// Runs one microbatch. Gradients of parameters accumulate over calls.
  tape_value run(tape_values inputs) {
    detached_.clear();
    given_.clear();
    return evaluate(calls_, std::move(inputs), *this);
  }

  /// Returns the stage calls of the last run, in order: path and arguments.
  std::vector<std::pair<std::string, tape_values>> const& given() const { return given_; }

  /// Returns the number of values that were detached for them.
  std::size_t detached_values() const { return detached_.size(); }

  /// Returns the gradients of each stage's own copies, by stage path.
  std::map<std::string, parameter_gradients> gradients() const {
    std::map<std::string, parameter_gradients> all;
    for (auto const& [path, stage] : stages_) all[path] = stage.gradients();
    return all;
  }

  tape_value constant(token const& t) const { return {tape_value::kind::constant, t}; }
  tape_value collect(container const& c, std::span<tape_value const> items) const {
    auto v = composite_of(c.what, {items.begin(), items.end()});
    v.shape = c;
    return v;
  }
  tape_value attribute(module_graph const& g, module_graph::position n) {
    return copy_of("").attribute(g, n);
  }

  tape_value call(module_graph const& g, module_graph::position n, std::span<tape_value const> args,
                  std::span<tape_value const> kwargs) {
    auto const& node = g[n];
    tape_gradients hooks(*tape_);
    if (node.kind == node_kind::call_module) {
      tape_values given;
      for (auto const& a : args) given.push_back(detached(a));
      given_.emplace_back(node.target, given);
      return evaluate(body_of(node), std::move(given), copy_of(node.target));
    }
    if (node.target == "null_coalesce_accumulate") return null_coalesce_accumulate(hooks, args[0], args[1]);
    if (node.target != "stage_backward") return copy_of("").call(g, n, args, kwargs);

    std::map<std::string, tape_value> named;
    for (std::size_t i = 0; i < kwargs.size(); ++i) named[node.kwargs[i].key] = kwargs[i];
    tape_values inputs;
    for (auto const& v : *named.at("input_values").items) inputs.push_back(detached(v));
    std::optional<std::vector<std::size_t>> selected;
    if (auto const& list = named["outputs_with_grads_idxs"]; list.items) {
      selected.emplace();
      for (auto const& i : *list.items) selected->push_back(static_cast<std::size_t>(integer_of(i)));
    }
    auto const null = is_backward_of_loss(node) ? null_gradient::at_the_loss : null_gradient::nothing;
    return composite_of(
        container::kind::tuple,
        stage_backward(hooks, named.at("stage_output"), named.at("output_grads"), inputs, selected, null));
  }

 private:
  module_graph const& body_of(module_node const& call) const {
    auto const* a = outer_->find_attribute(call.target);
    if (!a || a->body.empty())
      throw unknown_target_error("node '" + call.name + "': no stage '" + call.target + "'");
    return a->body.front();
  }

  toy_autograd& copy_of(std::string const& stage) {
    auto const known = stages_.find(stage);
    if (known != stages_.end()) return known->second;
    auto const* state = others_;
    if (states_)
      if (auto const own = states_->find(stage); own != states_->end()) state = &own->second;
    return stages_.emplace(stage, toy_autograd(*tape_, *state)).first->second;
  }

  /// Returns a leaf with the same value, one for all stages that read it. A value that needs no gradient is
  /// returned as it is.
  tape_value detached(tape_value const& v) {
    if (v.what == tape_value::kind::tensor && v.node) {
      auto& known = detached_[v.of];
      if (!known) known = tape_->leaf("argument", v.get());
      return *known;
    }
    if (v.what != tape_value::kind::composite) return v;
    tape_values items;
    for (auto const& i : *v.items) items.push_back(detached(i));
    auto made = composite_of(v.shape.what, std::move(items));
    made.shape = v.shape;
    return made;
  }

  tape* tape_;
  module_graph const* outer_;
  module_graph calls_;
  state_values const* others_;
  std::map<std::string, state_values> const* states_;
  std::map<std::string, toy_autograd> stages_;
  std::map<std::shared_ptr<tensor const>, std::optional<tape_value>> detached_;
  std::vector<std::pair<std::string, tape_values>> given_;
};

/// Returns the gradient of each parameter, summed over the copies of all stages.
inline parameter_gradients sum_of_copies(std::map<std::string, parameter_gradients> const& stages) {
  parameter_gradients sum;
  for (auto const& [path, gradients] : stages)
    for (auto const& [holder, g] : gradients) {
      auto& all = sum[holder];
      if (g) all = all ? *all + *g : *g;
    }
  return sum;
}

/// Returns the gradients that stages of `root` send to each other, as the nodes that make them.
inline std::vector<module_graph::position> gradient_edges(module_graph const& root) {
  std::vector<module_graph::position> edges;
  std::vector<char> read(root.list().size());
  for (auto const& n : root.list()) each_operand(n, [&](auto v) { read[v] = 1; });
  for (module_graph::position n = 0; n < root.list().size(); ++n)
    if (read[n] && root[n].target == "getitem" && root[root.operands(n).front()].target == "stage_backward")
      edges.push_back(n);
  return edges;
}

/// Returns `root` with the gradient from node `lost` replaced by zero.
inline module_graph without_gradient(module_graph const& root, module_graph::position lost) {
  module_graph made;
  auto const moved = [&](module_graph::position v) { return v < lost ? v : v + 1; };
  for (module_graph::position n = 0; n < root.list().size(); ++n) {
    auto node = root[n];
    for (auto& a : node.args) a = map_nodes(std::move(a), moved);
    for (auto& k : node.kwargs) k.value = map_nodes(std::move(k.value), moved);
    made.add(std::move(node));
    if (n != lost) continue;
    module_node nothing;
    nothing.name = root[n].name + "_lost";
    nothing.target = "mul";
    nothing.args = {node_argument(lost), {0.0}};
    made.add(std::move(nothing));
  }
  for (auto const& a : root.attributes()) made.add_attribute(a);
  return made;
}

/// The result of one step of a pipe: its output for each microbatch, and gradients by stage.
struct staged_step {
  tape_values outputs;
  std::map<std::string, parameter_gradients> gradients;
};

/// Runs `microbatches` one after another and weighs their gradients with `weights`.
inline staged_step run_step(module_graph const& outer, std::vector<tape_values> const& microbatches,
                            std::vector<double> const& weights, state_values const& state,
                            std::map<std::string, state_values> const* states = nullptr) {
  staged_step made;
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    tape t;
    staged_autograd run(t, outer, state, states);
    made.outputs.push_back(run.run(microbatches[i]));
    for (auto const& [stage, gradients] : run.gradients())
      for (auto const& [holder, g] : gradients) {
        auto& sum = made.gradients[stage][holder];
        if (g) sum = sum ? *sum + weights[i] * *g : weights[i] * *g;
      }
  }
  return made;
}

}  // namespace cleave::testing
