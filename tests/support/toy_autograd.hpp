// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/graph/argument.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "support/toy_operators.hpp"

namespace cleave::testing {

/// Thrown if a graph uses an operator or a parameter that the toy autograd lacks.
class unknown_target_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parameters and buffers by their names in the whole model.
using state_values = std::map<std::string, tensor>;
/// Gradients by the holder of a parameter: tied names have one holder.
using parameter_gradients = std::map<std::string, std::optional<tensor>>;

/// Returns the largest difference over all entries of `a`. A missing gradient counts as zeros.
inline double largest_difference(parameter_gradients const& a, parameter_gradients const& b) {
  double most = 0;
  for (auto const& [holder, g] : a) {
    auto const at = b.find(holder);
    auto const other = at == b.end() ? std::nullopt : at->second;
    if (g || other) most = std::max(most, largest_difference(g ? *g : 0 * *other, other ? *other : 0 * *g));
  }
  return most;
}

/// Returns the holder of the state that `a` names. It is the same for tied names, and in every piece of a cut
/// graph.
inline std::string holder_of(module_attribute const& a) {
  return !a.storage.empty() ? "storage " + a.storage : "path " + (a.original.empty() ? a.path : a.original);
}

/// Returns `state` extended by each name of `g` that is tied to a name with a value.
inline state_values with_ties(module_graph const& g, state_values state) {
  std::map<std::string, tensor> held;
  for (auto const& a : g.attributes())
    if (auto const known = state.find(a.path); known != state.end())
      held.emplace(holder_of(a), known->second);
  for (auto const& a : g.attributes())
    if (auto const known = held.find(holder_of(a)); known != held.end()) state.emplace(a.path, known->second);
  return state;
}

/// Returns true if the gradient of `a` is wanted. It is not for buffers, nor if the metadata says that none
/// is needed.
inline bool wants_gradient(module_attribute const& a) {
  if (a.what == module_attribute::kind::buffer) return false;
  for (auto const& [key, value] : a.metadata)
    if (key == "requires_grad" && value == module_argument{false}) return false;
  return true;
}

/// Returns the tensors in `list` at any depth, from left to right.
inline tape_values tensors_in(tape_values const& list) {
  tape_values all, rest(list.rbegin(), list.rend());
  while (!rest.empty()) {
    auto const v = std::move(rest.back());
    rest.pop_back();
    if (v.what == tape_value::kind::tensor) all.push_back(v);
    if (v.what == tape_value::kind::composite) rest.insert(rest.end(), v.items->rbegin(), v.items->rend());
  }
  return all;
}

/// Returns the operands by position, with null for those left out in between. Returns nullopt if a keyword
/// is unknown.
inline std::optional<tape_values> with_keywords(module_node const& n, tape_values operands,
                                                std::span<tape_value const> kwargs) {
  auto const parameters = keyword_places(n.target);
  for (std::size_t i = 0; i < kwargs.size(); ++i) {
    if (n.kwargs[i].key == "input" && operands.empty()) {
      operands.push_back(kwargs[i]);
      continue;
    }
    auto const at = std::ranges::find(parameters, n.kwargs[i].key);
    if (at == parameters.end()) return std::nullopt;
    auto const place = static_cast<std::size_t>(at - parameters.begin()) + 1;
    operands.resize(std::max(operands.size(), place + 1));
    operands[place] = kwargs[i];
  }
  return operands;
}

/// Computes one call of an operator and records it on `t`.
/// \throws unknown_target_error
inline tape_value call_operator(tape& t, module_node const& n, std::span<tape_value const> args,
                                std::span<tape_value const> kwargs) {
  auto const known = toy_operators().find(n.target);
  auto operands = std::optional<tape_values>({args.begin(), args.end()});
  if (!kwargs.empty()) operands = with_keywords(n, *std::move(operands), kwargs);
  if (known == toy_operators().end() || !operands)
    throw unknown_target_error("node '" + n.name + "': the toy autograd has no operator '" + n.target + "'" +
                               (kwargs.empty() ? "" : " with such keywords"));
  return known->second(t, *operands);
}

/// Runs module_graphs on a tape: an `interpretation` for `evaluate`. State that shares storage is one leaf,
/// and so is a path that is read repeatedly. One object is thus one copy of the model's state. A stage with
/// replicas needs an autograd per replica, on the same tape.
class toy_autograd {
 public:
  toy_autograd(tape& t, state_values const& state) : tape_(&t), state_(&state) {}

  tape_value constant(token const& t) const { return {tape_value::kind::constant, t}; }
  tape_value collect(container const& c, std::span<tape_value const> items) const {
    auto v = composite_of(c.what, {items.begin(), items.end()});
    v.shape = c;
    return v;
  }

  tape_value attribute(module_graph const& g, module_graph::position n) {
    auto const& path = g[n].target;
    auto const* a = g.find_attribute(path);
    if (!a) return leaf_of(path, "path " + path, true);
    return leaf_of(a->original.empty() ? path : a->original, holder_of(*a), wants_gradient(*a));
  }

  tape_value call(module_graph const& g, module_graph::position n, std::span<tape_value const> args,
                  std::span<tape_value const> kwargs) {
    return call_operator(*tape_, g[n], args, kwargs);
  }

  /// Returns the gradient of each parameter that was read, or nullopt if none arrived.
  parameter_gradients gradients() const {
    parameter_gradients all;
    for (auto const& [holder, leaf] : leaves_)
      if (leaf.node) all[holder] = tape_->gradient_of(leaf);
    return all;
  }

 private:
  tape_value leaf_of(std::string const& name, std::string const& holder, bool wanted) {
    if (auto const known = leaves_.find(holder); known != leaves_.end()) return known->second;
    auto const value = state_->find(name);
    if (value == state_->end()) throw unknown_target_error("no value for state '" + name + "'");
    return leaves_[holder] = wanted ? tape_->leaf(name, value->second) : constant_of(value->second);
  }

  tape* tape_;
  state_values const* state_;
  std::map<std::string, tape_value> leaves_;  // by holder
};

/// Updates p −= rate·gradient for each parameter of `g` in `state` that has a gradient, under all its names.
inline void descend(state_values& state, module_graph const& g, parameter_gradients const& gradients,
                    double rate) {
  for (auto const& a : g.attributes()) {
    auto const value = state.find(a.original.empty() ? a.path : a.original);
    auto const found = gradients.find(holder_of(a));
    if (value != state.end() && found != gradients.end() && found->second)
      value->second = value->second - rate * *found->second;
  }
}

}  // namespace cleave::testing
