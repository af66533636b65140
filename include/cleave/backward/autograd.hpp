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

/// An interface to any automatic differentiation, as the backward pass of stages needs it.
namespace cleave::inline v0_2 {

/// Values and their differentiation. A value is null, a tensor or another leaf, or a container of values.
/// - `a.null()` returns the null value, which means that there is no gradient; `a.is_null(v)` tests for it.
/// - `a.elements(v)` returns the elements of a container (of a dict its values), or nothing for a leaf.
/// - `a.keys(v)` returns the keys of a dict in the order of its elements; otherwise an empty list.
/// - `a.rebuild(like, elements)` returns a container of the form of `like`.
/// - `a.needs_gradient(v)` returns true if the leaf depends on anything that is differentiated.
/// - `a.is_scalar(v)` returns true if the tensor is a single number; `a.one(v)` returns a gradient of one.
/// - `a.add(x, y)` returns the sum of two tensors.
/// - `a.differentiate(outputs, gradients)` adds to the gradients that leaves hold. If an output is listed
///   twice, both of its gradients count.
/// - `a.take_gradient(v)` returns the gradient that the leaf `v` holds, or null, and clears it.
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

namespace cleave::inline v0_2::detail {

/// The reason why a value and its gradient, or two gradients, do not match.
struct gradient_fault {
  enum class kind : std::uint8_t {
    different_form,   ///< one is a container and the other a leaf, or only one is a dict
    different_count,  ///< the numbers of elements differ
    different_keys,   ///< the keys of two dicts differ
    null_gradient,    ///< the gradient is null, which means one, but the value is not a scalar
    unknown_output,   ///< there is no output with that number
  };
  kind what;
  std::string path;  ///< path from the outermost container, such as `[0]['x']`

  bool operator==(gradient_fault const&) const = default;
};

/// Returns a sentence about the fault, without its place, which `gradient_subject` returns.
inline std::string describe(gradient_fault const& f) {
  switch (f.what) {
    case gradient_fault::kind::different_form:
      return "a container is paired with a value of another kind; gradients must have the form of their "
             "values";
    case gradient_fault::kind::different_count:
      return "the numbers of elements differ; use null for a missing gradient";
    case gradient_fault::kind::different_keys:
      return "the keys differ";
    case gradient_fault::kind::null_gradient:
      return "the gradient is null, which is allowed only for a scalar, where it means one";
    case gradient_fault::kind::unknown_output:
      return "there is no such output";
  }
  return {};
}

/// Thrown if gradients do not have the form of their values. The witness is the place and the reason.
using gradient_error = fault_error<gradient_fault>;

/// Returns the place for an error message: `whose`, or `whose at path`.
inline std::string gradient_subject(std::string const& whose, std::string const& path) {
  return path.empty() ? whose : whose + " at " + printable(path);
}

/// A value with its elements, if it is a container.
template <class Value>
struct opened_value {
  std::optional<std::vector<Value>> elements;
  std::vector<std::string> keys;  ///< of a dict

  template <autograd<Value> A>
  opened_value(A& a, Value const& v) : elements(a.elements(v)) {
    if (elements) keys = a.keys(v);
  }

  /// Returns element `i` as part of a path, such as `[0]` or `['x']`.
  std::string key(std::size_t i) const {
    return keys.empty() ? "[" + std::to_string(i) + "]" : "['" + keys[i] + "']";
  }

  /// Returns the positions of the elements sorted by key, or in order if there are no keys.
  std::vector<std::size_t> by_key() const {
    std::vector<std::size_t> order(elements->size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    if (!keys.empty()) std::ranges::sort(order, {}, [&](std::size_t i) { return keys[i]; });
    return order;
  }
};

/// Says if the shorter of two containers may lack elements of the other.
enum class element_count : std::uint8_t { equal, any };

/// Returns the reason why `a` and `b` cannot be walked in parallel, or nothing.
/// \pre at least one of them is a container
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

/// Returns `v` with each leaf replaced by `f(leaf)`. O(size), without recursion.
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
