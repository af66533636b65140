// SPDX-License-Identifier: MIT
#pragma once
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

/// A graph that reads what the toy autograd does not have: an operator, a parameter.
class unknown_target_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Parameters and buffers by their names in the whole model; tied names may each have the value, or one.
using model_state = std::map<std::string, tensor>;

/// Whether gradients of what `a` names are wanted: of all but buffers and what its metadata says needs none.
inline bool wants_gradient(module_attribute const& a) {
  if (a.what == module_attribute::kind::buffer) return false;
  for (auto const& [key, value] : a.metadata)
    if (key == "requires_grad" && value == module_argument{false}) return false;
  return true;
}

/// Runs module_graphs on a tape: an `interpretation` for `evaluate`. State that shares storage, and each path
/// however often it is read, is one leaf, so one of these is one copy of the model's state: a stage that has
/// replicas has an autograd of its own, on the same tape.
class toy_autograd {
 public:
  toy_autograd(tape& t, model_state const& state) : tape_(&t), state_(&state) {}

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
    auto const& original = a->original.empty() ? path : a->original;
    return leaf_of(original, a->storage.empty() ? "path " + original : "storage " + a->storage,
                   wants_gradient(*a));
  }

  tape_value call(module_graph const& g, module_graph::position n, std::span<tape_value const> args,
                  std::span<tape_value const> kwargs) {
    auto const known = toy_operators().find(g[n].target);
    if (known == toy_operators().end() || !kwargs.empty())
      throw unknown_target_error("node '" + g[n].name + "': the toy autograd has no operator '" +
                                 g[n].target + "'" + (kwargs.empty() ? "" : " with keywords"));
    return known->second(*tape_, {args.begin(), args.end()});
  }

  /// The leaves by the names under which they were read first.
  std::map<std::string, tape_value> const& leaves() const { return leaves_; }
  /// What arrived at each, or nothing where none did.
  std::map<std::string, std::optional<tensor>> gradients() const {
    std::map<std::string, std::optional<tensor>> all;
    for (auto const& [name, leaf] : leaves_)
      if (leaf.node) all[name] = tape_->gradient_of(leaf);
    return all;
  }

  tape& on() const { return *tape_; }

 private:
  tape_value leaf_of(std::string const& name, std::string const& storage, bool wanted) {
    auto const [at, fresh] = names_.try_emplace(storage, name);
    if (!fresh) return leaves_.at(at->second);
    auto const value = state_->find(name);
    if (value == state_->end()) {
      names_.erase(at);
      throw unknown_target_error("no value for state '" + name + "'");
    }
    return leaves_[name] = wanted ? tape_->leaf(name, value->second) : constant_of(value->second);
  }

  tape* tape_;
  model_state const* state_;
  std::map<std::string, std::string> names_;  // by storage
  std::map<std::string, tape_value> leaves_;  // by name
};

/// p −= rate·gradient for each that has one.
inline void descend(model_state& state, std::map<std::string, std::optional<tensor>> const& gradients,
                    double rate) {
  for (auto const& [name, g] : gradients)
    if (g) state.at(name) = state.at(name) - rate * *g;
}

}  // namespace cleave::testing
