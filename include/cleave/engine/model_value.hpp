// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cleave/core/expects.hpp"
#include "cleave/graph/argument.hpp"

namespace cleave::inline v0_2 {

/// The value of a node in a run of a model: a tensor, a constant, or a list, tuple, dict or slice of such
/// values. Containers are stored flat, so any nesting depth works, and copying a value is cheap.
template <std::copyable Tensor>
class model_value {
 public:
  /// Makes the null constant.
  model_value() = default;
  /// \pre `t` is neither a reference to a node nor a container
  model_value(token t) : what_(std::move(t)) {}  // NOLINT(google-explicit-constructor)
  model_value(Tensor t)
      : what_(std::in_place_index<1>, std::move(t)) {}  // NOLINT(google-explicit-constructor)
  /// Makes a container of `elements`; for a dict, keys and values alternate.
  /// \pre their number is `elements_of(c)`
  model_value(container const& c, std::span<model_value const> elements)
      : what_(std::in_place_index<2>, flattened(c, elements)) {}
  /// Makes a value of a form and the tensors for its references, in order.
  /// \pre `form` is complete, and has as many references as there are tensors
  model_value(module_argument form, std::vector<Tensor> tensors) {
    if (std::holds_alternative<container>(form.front()))
      what_.template emplace<2>(std::make_shared<flat const>(flat{std::move(form), std::move(tensors)}));
    else if (tensors.empty())
      what_.template emplace<0>(std::move(form.front()));
    else
      what_.template emplace<1>(std::move(tensors.front()));
  }

  /// Returns the tensor, or null if this is another value.
  Tensor const* tensor() const { return std::get_if<1>(&what_); }
  /// Returns the constant, or null if this is another value.
  token const* constant() const { return std::get_if<0>(&what_); }
  bool is_null() const { return constant() && std::holds_alternative<std::monostate>(*constant()); }
  /// Returns the container without its elements, or null if this is another value.
  container const* outer() const {
    auto const* all = std::get_if<2>(&what_);
    return all ? std::get_if<container>(&(*all)->form.front()) : nullptr;
  }

  /// Returns the elements of a container; of a dict, keys and values alternate. Of other values, none.
  /// O(size).
  std::vector<model_value> elements() const {
    std::vector<model_value> list;
    if (auto const* all = std::get_if<2>(&what_)) {
      auto const& form = (*all)->form;
      std::size_t tensors = 0;
      for (std::size_t at = 1; at < form.size();) {
        auto const end = detail::subtree_end(form, at);
        list.push_back(part(**all, at, end, tensors));
        at = end;
      }
    }
    return list;
  }

  /// Returns the value's form: its constants and containers, with a reference for each tensor.
  module_argument form() const {
    if (auto const* all = std::get_if<2>(&what_)) return (*all)->form;
    return {tensor() ? token(node_ref{0}) : *constant()};
  }
  /// Returns all tensors in the value, in order.
  std::span<Tensor const> tensors() const {
    if (auto const* all = std::get_if<2>(&what_)) return (*all)->tensors;
    return {tensor(), tensor() ? std::size_t{1} : std::size_t{0}};
  }

  /// Returns the value with `f(t)` for each tensor `t`, in order.
  template <class F>
  auto map(F f) const {
    using other = std::remove_cvref_t<std::invoke_result_t<F&, Tensor const&>>;
    if (auto const* t = tensor()) return model_value<other>(f(*t));
    if (auto const* c = constant()) return model_value<other>(*c);
    std::vector<other> made;
    for (auto const& t : tensors()) made.push_back(f(t));
    return model_value<other>(form(), std::move(made));
  }

 private:
  struct flat {
    module_argument form;
    std::vector<Tensor> tensors;
  };

  static std::shared_ptr<flat const> flattened(container const& c, std::span<model_value const> elements) {
    expects(elements.size() == elements_of(c), "model_value: an element for each place of the container");
    flat made{{c}, {}};
    for (auto const& e : elements) {
      if (auto const* all = std::get_if<2>(&e.what_))
        made.form.insert(made.form.end(), (*all)->form.begin(), (*all)->form.end());
      else
        made.form.push_back(e.tensor() ? token(node_ref{0}) : *e.constant());
      made.tensors.insert(made.tensors.end(), e.tensors().begin(), e.tensors().end());
    }
    return std::make_shared<flat const>(std::move(made));
  }

  /// Returns the element at positions `at` to `end` of the form. `tensors` counts those before it.
  static model_value part(flat const& all, std::size_t at, std::size_t end, std::size_t& tensors) {
    auto const first = all.form.begin();
    module_argument form(first + static_cast<std::ptrdiff_t>(at), first + static_cast<std::ptrdiff_t>(end));
    auto const before = tensors;
    detail::each_node(form, [&](auto) { ++tensors; });
    auto const from = all.tensors.begin();
    return {std::move(form), std::vector<Tensor>(from + static_cast<std::ptrdiff_t>(before),
                                                 from + static_cast<std::ptrdiff_t>(tensors))};
  }

  std::variant<token, Tensor, std::shared_ptr<flat const>> what_;
};

}  // namespace cleave
