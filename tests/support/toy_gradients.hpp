// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/expects.hpp"
#include "support/toy_operators.hpp"

namespace cleave::testing {

/// A tape as the autograd that a stage's backward pass requires.
class tape_gradients {
 public:
  explicit tape_gradients(tape& t) : tape_(&t) {}

  tape_value null() const { return {}; }
  bool is_null(tape_value const& v) const { return v.is_null(); }

  /// Returns the elements of a container, the values of a dict, or nullopt for a leaf.
  std::optional<tape_values> elements(tape_value const& v) const {
    if (v.what != tape_value::kind::composite) return std::nullopt;
    if (v.shape.what != container::kind::dict) return *v.items;
    tape_values values;
    for (std::size_t i = 1; i < v.items->size(); i += 2) values.push_back((*v.items)[i]);
    return values;
  }
  std::vector<std::string> keys(tape_value const& v) const {
    std::vector<std::string> names;
    if (v.what == tape_value::kind::composite && v.shape.what == container::kind::dict)
      for (std::size_t i = 0; i < v.items->size(); i += 2)
        names.push_back(std::get<std::string>((*v.items)[i].text));
    return names;
  }
  /// Returns a container of the same structure as `like`.
  tape_value rebuild(tape_value const& like, tape_values elements) const {
    if (like.shape.what == container::kind::dict) {
      tape_values pairs;
      for (std::size_t i = 0; i < elements.size(); ++i) {
        pairs.push_back((*like.items)[2 * i]);
        pairs.push_back(std::move(elements[i]));
      }
      elements = std::move(pairs);
    }
    auto made = composite_of(like.shape.what, std::move(elements));
    made.shape = like.shape;
    return made;
  }

  bool needs_gradient(tape_value const& v) const { return v.node.has_value(); }
  bool is_scalar(tape_value const& v) const { return v.get().data.size() == 1; }
  tape_value one(tape_value const& v) const { return constant_of(tensor::filled(v.get().shape, 1)); }
  tape_value add(tape_value const& x, tape_value const& y) const { return constant_of(x.get() + y.get()); }

  /// Accumulates the gradients of `outputs` in the leaves. An output that is listed twice counts twice.
  void differentiate(tape_values const& outputs, tape_values const& gradients) {
    expects(outputs.size() == gradients.size(), "a gradient for each output");
    gradient_seeds seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      seeds.emplace_back(outputs[i].node.value(), gradients[i].get());
    tape_->backward(seeds);
  }

  /// Returns the gradient accumulated in leaf `v`, or null, and resets it.
  tape_value take_gradient(tape_value const& v) {
    if (!v.node || !tape_->nodes()[*v.node].is_leaf()) return null();
    auto const held = std::exchange(tape_->gradient(*v.node), std::nullopt);
    return held ? constant_of(*held) : null();
  }

 private:
  tape* tape_;
};

}  // namespace cleave::testing
