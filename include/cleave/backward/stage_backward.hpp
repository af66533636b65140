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

#include "cleave/backward/autograd.hpp"

/// The calls of a backward pass, implemented for any automatic differentiation (`autograd`).
namespace cleave::inline v0_2 {

/// The meaning of a null gradient of a tensor. `at_the_loss`: the tensor is the loss, so its gradient is one;
/// it must be a scalar. `nothing`: no gradient arrives.
enum class null_gradient : std::uint8_t { at_the_loss, nothing };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Walks outputs and their gradients in parallel. Helper of `stage_backward`.
template <class Value, autograd<Value> A>
class gradient_matcher {
 public:
  gradient_matcher(A& a, null_gradient null) : a_(&a), null_(null) {}

  /// Collects the tensors in `output` that are differentiated, and their gradients. `key` is the key of the
  /// output.
  void match(Value const& output, Value const& gradient, std::string const& key) {
    trail_.assign(1, {0, key});
    rest_.push_back({output, gradient, 0});
    while (!rest_.empty()) {
      visit const here = std::move(rest_.back());
      rest_.pop_back();
      opened_value<Value> const output_here(*a_, here.output);
      if (output_here.elements)
        enter(output_here, here);
      else if (!a_->is_null(here.output) && a_->needs_gradient(here.output))
        list(here);
    }
  }

  std::vector<Value> outputs, gradients;

 private:
  using kind = gradient_fault::kind;
  struct visit {
    Value output, gradient;
    std::size_t step;  // last step of its path
  };
  struct step {
    std::size_t before;
    std::string key;
  };

  [[noreturn]] void refuse(kind what, std::size_t at) const {
    std::string path = trail_[at].key;
    while (at != 0) path.insert(0, trail_[at = trail_[at].before].key);
    throw gradient_error(gradient_subject("stage_backward: output", path), {what, path});
  }

  void list(visit const& here) {
    bool const null = a_->is_null(here.gradient);
    if (null && null_ == null_gradient::nothing) return;
    if (null && !a_->is_scalar(here.output)) refuse(kind::null_gradient, here.step);
    if (!null && a_->elements(here.gradient)) refuse(kind::different_form, here.step);
    outputs.push_back(here.output);
    gradients.push_back(null ? Value(a_->one(here.output)) : here.gradient);
  }

  /// Pushes the elements of a container, the last first, so that the first is visited next. A null gradient
  /// of the container is null for all elements.
  void enter(opened_value<Value> const& output, visit const& here) {
    if (a_->is_null(here.gradient)) return;
    opened_value<Value> const gradient(*a_, here.gradient);
    if (auto const f = find_mismatch(output, gradient, element_count::equal)) refuse(*f, here.step);
    auto const at = output.by_key(), from = gradient.by_key();
    for (std::size_t i = at.size(); i-- > 0;) {
      trail_.push_back({here.step, output.key(at[i])});
      rest_.push_back({(*output.elements)[at[i]], (*gradient.elements)[from[i]], trail_.size() - 1});
    }
  }

  A* a_;
  null_gradient null_;
  std::vector<visit> rest_;
  std::vector<step> trail_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Differentiates the outputs of a stage with respect to its inputs. This is the call `stage_backward` of a
/// backward pass.
///
/// \param output value that the stage returned
/// \param gradients gradients of `output`, in the same form; null for a container skips the container
/// \param inputs arguments of the stage
/// \param selected numbers of the outputs to differentiate, in this order; all if absent
/// \param null meaning of a null gradient of a tensor. `at_the_loss` is PyTorch's rule and is right only for
/// the stage of the loss. Elsewhere use `nothing`: an output that later stages do not use has a null gradient
/// \returns the gradient of each input, in the form of the input; null where no gradient arrives. A gradient
/// that an input already holds is included, and the input then holds none
/// \throws gradient_error
///
/// Outputs that do not depend on anything differentiable are skipped. O(size of the values), without
/// recursion.
template <class Value, autograd<Value> A>
std::vector<Value> stage_backward(A& a, Value const& output, Value const& gradients,
                                  std::vector<Value> const& inputs,
                                  std::optional<std::vector<std::size_t>> const& selected = {},
                                  null_gradient null = null_gradient::at_the_loss) {
  detail::gradient_matcher<Value, A> matcher(a, null);
  if (!selected) {
    matcher.match(output, gradients, "");
  } else if (!selected->empty()) {
    detail::opened_value<Value> const outputs(a, output), given(a, gradients);
    auto const refuse = [](detail::gradient_fault::kind what, std::string const& path) {
      throw detail::gradient_error(detail::gradient_subject("stage_backward: output", path), {what, path});
    };
    if (!outputs.elements || !given.elements) refuse(detail::gradient_fault::kind::different_form, "");
    for (auto const i : *selected) {
      if (i >= outputs.elements->size() || i >= given.elements->size())
        refuse(detail::gradient_fault::kind::unknown_output, "[" + std::to_string(i) + "]");
      matcher.match((*outputs.elements)[i], (*given.elements)[i], outputs.key(i));
    }
  }
  if (!matcher.outputs.empty()) a.differentiate(matcher.outputs, matcher.gradients);
  std::vector<Value> made;
  for (auto const& input : inputs)
    made.push_back(detail::map_leaves(a, input, [&](Value const& v) { return Value(a.take_gradient(v)); }));
  return made;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Adds two gradients element by element. Helper of `null_coalesce_accumulate`.
template <class Value, autograd<Value> A>
class gradient_adder {
 public:
  explicit gradient_adder(A& a) : a_(&a) {}

  Value add(Value const& old, Value const& added) {
    if (auto sum = simple(old, added)) return *std::move(sum);
    enter(old, added);
    for (;;) {
      level& top = open_.back();
      if (top.done.size() == top.pairs.size()) {
        Value made = a_->rebuild(top.like, std::move(top.done));
        open_.pop_back();
        if (open_.empty()) return made;
        open_.back().done.push_back(std::move(made));
      } else {
        auto const [x, y] = top.pairs[top.done.size()];
        if (auto sum = simple(x, y))
          top.done.push_back(*std::move(sum));
        else
          enter(x, y);
      }
    }
  }

 private:
  struct level {
    Value like;
    std::vector<std::pair<Value, Value>> pairs;
    std::vector<Value> done;
  };

  /// Returns the sum if one gradient is null or both are leaves.
  std::optional<Value> simple(Value const& old, Value const& added) {
    if (a_->is_null(old)) return added;
    if (a_->is_null(added)) return old;
    if (a_->elements(old) || a_->elements(added)) return std::nullopt;
    return Value(a_->add(old, added));
  }

  void enter(Value const& old, Value const& added) {
    opened_value<Value> const x(*a_, old), y(*a_, added);
    if (auto const f = find_mismatch(x, y, element_count::any))
      throw gradient_error(gradient_subject("null_coalesce_accumulate", path()), {*f, path()});
    auto const in_x = x.by_key(), in_y = y.by_key();
    bool const longer = in_y.size() > in_x.size();
    level next{longer ? added : old, {}, {}};
    auto const size = longer ? in_y.size() : in_x.size();
    next.pairs.assign(size, {a_->null(), a_->null()});
    for (std::size_t i = 0; i < in_x.size(); ++i) next.pairs[in_x[i]].first = (*x.elements)[in_x[i]];
    for (std::size_t i = 0; i < in_y.size(); ++i)
      next.pairs[i < in_x.size() ? in_x[i] : i].second = (*y.elements)[in_y[i]];
    open_.push_back(std::move(next));
  }

  std::string path() const {
    std::string text;
    for (auto const& l : open_) text += opened_value<Value>(*a_, l.like).key(l.done.size());
    return text;
  }

  A* a_;
  std::vector<level> open_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the sum of two gradients of one value. Either may be null. Containers are added element by
/// element; elements that the shorter one lacks count as null. O(size), without recursion.
/// \throws gradient_error
template <class Value, autograd<Value> A>
Value null_coalesce_accumulate(A& a, Value const& old, Value const& added) {
  return detail::gradient_adder<Value, A>(a).add(old, added);
}

/// The key of an element: a position, which counts from the end if negative, or a string.
using element_key = std::variant<std::int64_t, std::string>;

/// Returns a gradient of the form of the container `of`. Its element under `key` is `gradient`; all others
/// are null. O(number of elements).
/// \throws gradient_error
template <class Value, autograd<Value> A>
Value element_gradient(A& a, Value const& of, element_key const& key, Value const& gradient) {
  detail::opened_value<Value> const whole(a, of);
  auto const* place = std::get_if<std::int64_t>(&key);
  auto const text = place ? std::to_string(*place) : std::get<std::string>(key);
  auto const refuse = [&](detail::gradient_fault::kind what) {
    auto const path = place ? "[" + text + "]" : "['" + text + "']";
    throw detail::gradient_error(detail::gradient_subject("element_gradient", path), {what, path});
  };
  if (!whole.elements) refuse(detail::gradient_fault::kind::different_form);
  auto const size = static_cast<std::int64_t>(whole.elements->size());
  std::int64_t at = place ? *place + (*place < 0 ? size : 0) : size;
  if (!whole.keys.empty()) at = std::ranges::find(whole.keys, text) - whole.keys.begin();
  if (at < 0 || at >= size) refuse(detail::gradient_fault::kind::unknown_output);
  std::vector<Value> elements(whole.elements->size(), a.null());
  elements[static_cast<std::size_t>(at)] = gradient;
  return a.rebuild(of, std::move(elements));
}

}  // namespace cleave
