// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

/// Any automatic differentiation, as the backward pass of stages asks for it.
namespace cleave {

/// Values that are null, tensors or other leaves, or containers of values, and their differentiation.
/// - `a.null()`, `a.is_null(v)`     what stands for no gradient,
/// - `a.elements(v)`                what a container holds, of a dict its values; nothing of a leaf,
/// - `a.keys(v)`                    of a dict its keys, in step with its elements; else none,
/// - `a.rebuild(like, elements)`    a container of the form of `like`,
/// - `a.needs_gradient(v)`          of a leaf: whether it depends on anything that is differentiated,
/// - `a.is_scalar(v)`, `a.one(v)`   of a tensor: whether it is one number; the gradient one for it,
/// - `a.add(x, y)`                  the sum of two tensors,
/// - `a.differentiate(outputs, gradients)`  adds to the gradients that leaves hold; of an output that is
///                                  listed twice both gradients count,
/// - `a.take_gradient(v)`           the gradient that the leaf `v` holds, or null; then it holds none.
template <class A, class Value>
concept autograd = std::copyable<Value> && requires(A& a, Value const& v, std::vector<Value> const& values) {
  { a.null() } -> std::convertible_to<Value>;
  { a.is_null(v) } -> std::convertible_to<bool>;
  { a.elements(v) } -> std::convertible_to<std::optional<std::vector<Value>>>;
  { a.keys(v) } -> std::convertible_to<std::vector<std::string>>;
  { a.rebuild(v, values) } -> std::convertible_to<Value>;
  { a.needs_gradient(v) } -> std::convertible_to<bool>;
  { a.is_scalar(v) } -> std::convertible_to<bool>;
  { a.one(v) } -> std::convertible_to<Value>;
  { a.add(v, v) } -> std::convertible_to<Value>;
  a.differentiate(values, values);
  { a.take_gradient(v) } -> std::convertible_to<Value>;
};

}  // namespace cleave

namespace cleave::detail {

/// Why a value and its gradient, or two gradients, do not fit.
struct gradient_fault {
  enum class kind : std::uint8_t {
    different_form,   ///< one is a container and the other a leaf, or a dict and none
    different_count,  ///< they differ in their number of elements
    different_keys,   ///< dicts differ in their keys
    null_gradient,    ///< the gradient is null, and the value is not one number, for which that means one
    unknown_output,   ///< there is no output of that number
  };
  kind what;
  std::string path;  ///< where, from the outermost container: `[0]['x']`

  bool operator==(gradient_fault const&) const = default;
};

/// Returns how a gradient does not fit. The place stands before it, see `gradient_subject`.
inline std::string describe(gradient_fault const& f) {
  switch (f.what) {
    case gradient_fault::kind::different_form:
      return "a container meets what is none of its kind; gradients have the form of their values";
    case gradient_fault::kind::different_count:
      return "the numbers of elements differ; null stands for a gradient that is missing";
    case gradient_fault::kind::different_keys:
      return "the keys differ";
    case gradient_fault::kind::null_gradient:
      return "a null gradient means one, and only for a value that is one number";
    case gradient_fault::kind::unknown_output:
      return "there is no such output";
  }
  return {};
}

/// Gradients that do not have the form of what they are of. The witness: where, and why.
using gradient_error = fault_error<gradient_fault>;

/// Returns the place that an error about a gradient names: `whose`, or `whose at path`.
inline std::string gradient_subject(std::string const& whose, std::string const& path) {
  return path.empty() ? whose : whose + " at " + printable(path);
}

/// A value, open where it is a container.
template <class Value>
struct opened_value {
  std::optional<std::vector<Value>> elements;
  std::vector<std::string> keys;  ///< of a dict

  template <autograd<Value> A>
  opened_value(A& a, Value const& v) : elements(a.elements(v)) {
    if (elements) keys = a.keys(v);
  }

  std::string key(std::size_t i) const {
    return keys.empty() ? "[" + std::to_string(i) + "]" : "['" + keys[i] + "']";
  }

  /// The numbers of the elements in the order of the keys, or of the elements where there are none.
  std::vector<std::size_t> by_key() const {
    std::vector<std::size_t> order(elements->size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!keys.empty()) std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]; });
    return order;
  }
};

/// Whether one of two containers may have elements that the other lacks.
enum class element_count : std::uint8_t { equal, any };

/// Why `a` and `b`, of which one is a container, cannot be gone through side by side, or nothing.
template <class Value>
std::optional<gradient_fault::kind> find_mismatch(opened_value<Value> const& a, opened_value<Value> const& b,
                                                  element_count count) {
  using enum gradient_fault::kind;
  if (!a.elements != !b.elements || a.keys.empty() != b.keys.empty()) return different_form;
  bool const equal = a.elements->size() == b.elements->size();
  if (!equal && (count == element_count::equal || !a.keys.empty())) return different_count;
  if (a.keys.empty()) return std::nullopt;
  auto const in_a = a.by_key(), in_b = b.by_key();
  for (std::size_t i = 0; i < in_a.size(); ++i)
    if (a.keys[in_a[i]] != b.keys[in_b[i]]) return different_keys;
  return std::nullopt;
}

/// `v` with each leaf replaced by `f(leaf)`. O(size), no recursion.
template <class Value, autograd<Value> A, class F>
Value map_leaves(A& a, Value const& v, F f) {
  struct level {
    Value like;
    std::vector<Value> elements, done;
  };
  std::vector<level> open;
  std::optional<Value> next(v);
  for (;;) {
    auto elements = next ? std::optional<std::vector<Value>>(a.elements(*next)) : std::nullopt;
    if (elements) {
      open.push_back({*next, *std::move(elements), {}});
    } else {
      Value made = f(*next);
      if (open.empty()) return made;
      open.back().done.push_back(std::move(made));
    }
    while (open.back().done.size() == open.back().elements.size()) {
      Value made = a.rebuild(open.back().like, std::move(open.back().done));
      open.pop_back();
      if (open.empty()) return made;
      open.back().done.push_back(std::move(made));
    }
    next = open.back().elements[open.back().done.size()];
  }
}

}  // namespace cleave::detail
