// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cleave/engine/model_value.hpp"
#include "cleave/engine/operator_call.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"

/// The interface to a framework that computes the stages of a model: its tensors, its operators and its
/// differentiation.
namespace cleave::inline v0_2 {

/// Tensors of a framework, and their elements in memory. Memory is that of the device on which stages run,
/// and is row-major.
/// - `F::tensor`: copyable. Copies may share elements or not.
/// - `f.view(t)`: returns the element type and shape of `t`, and the address of its elements, or null if they
///   are not at one address in row-major order. The address is used while `t` lives.
/// - `f.wrap(v)`: returns a tensor with the elements of `v`: on this memory, or a copy. Operators that write
///   state in place need it to be on this memory.
/// - `f.copy(t)`: returns a tensor with the same elements in memory of its own.
/// - `f.write(t, v)`: copies the elements of `t` to `v`, which has its type and shape.
/// - `f.add(t, v, x)`: adds `x` times the elements of `t` to those of `v`.
/// - `f.fill(v, x)`: sets all elements of `v` to `x`.
///
/// Outside of passes, the work of these calls has ended when they return.
template <class F>
concept tensor_memory = std::copyable<typename F::tensor> &&
                        requires(F& f, typename F::tensor const& t, tensor_view const& v, double x) {
                          { f.view(t) } -> std::same_as<tensor_view>;
                          { f.wrap(v) } -> std::same_as<typename F::tensor>;
                          { f.copy(t) } -> std::same_as<typename F::tensor>;
                          { f.write(t, v) };
                          { f.add(t, v, x) };
                          { f.fill(v, x) };
                        };

/// A framework that computes the operators of a model. Copies of it work for different ranks, at the same
/// time.
/// - `f.call(c)`: returns the value of a call of an operator. \throws operator_error or any exception, which
///   is reported with the stage and the node
///
/// It may also have these members:
/// - `f.begin(pass)`: called before each forward pass and each recomputation of a stage, for example to set
///   the training mode (`pass.trains`).
/// - `f.random_state()`, `f.set_random_state(s)`: the state of its random numbers. A recomputation begins
///   with the state of the forward pass, so that both drop the same elements.
/// - `f.on(stream)`: returns an object; while it lives, work of this thread is issued to that stream.
/// - `f.before_forward(pass)`, `f.after_forward(pass)`, `f.after_backward(pass)`: hooks of the whole model:
///   called before each forward pass of its first stage, after each forward pass of its last stage, and after
///   each backward pass of its first stage.
template <class F>
concept tensor_framework =
    std::copyable<F> && tensor_memory<F> && requires(F& f, operator_call<typename F::tensor> const& c) {
      { f.call(c) } -> std::convertible_to<model_value<typename F::tensor>>;
    };

/// A framework with reverse-mode differentiation, by a tape or a graph that its tensors keep.
/// - `f.leaf(t)`: returns a tensor with the elements of `t`, not made of others, whose gradient is wanted.
/// - `f.needs_gradient(t)`: returns true if `t` is such a leaf or is made of one.
/// - `f.filled(t, x)`: returns a tensor of the type and shape of `t`, with all elements `x`.
/// - `f.gradients(results, at_results, wanted, keep)`: returns the gradients of the tensors `wanted`, or
///   nothing for a tensor that no result leads to, from those of the results. There may be no results. If
///   `keep`, the same results can be differentiated again.
///
/// A framework that can cut a backward pass in two, as zero-bubble schedules do, may also have
/// - `f.split(results, at_results, inputs, parameters)`: returns a movable object `s`. `s.inputs()` computes
///   the gradients of `inputs`, as `gradients` does; called once. `s.parameters()` computes those of
///   `parameters` later; called once.
///
/// Without it, `gradients` is called for each half, which computes what both need twice.
///
/// A framework that can hand over gradients while a backward pass goes on may also have
/// - `f.each_gradient(results, at_results, wanted, take)`: as `gradients`, but calls `take(i, g)` with the
///   gradient of `wanted[i]`, or with nothing, as soon as it is complete; once for each, on one thread at a
///   time
/// - in the object of `f.split`, `s.each_parameter(take)`: the same instead of `s.parameters()`
///
/// Without them, sums of gradients over replicas begin after the pass.
template <class F>
concept differentiating_framework =
    tensor_framework<F> &&
    requires(F& f, typename F::tensor const& t, std::vector<typename F::tensor> const& list, double x) {
      { f.leaf(t) } -> std::same_as<typename F::tensor>;
      { f.needs_gradient(t) } -> std::same_as<bool>;
      { f.filled(t, x) } -> std::same_as<typename F::tensor>;
      {
        f.gradients(list, list, list, bool{})
      } -> std::same_as<std::vector<std::optional<typename F::tensor>>>;
    };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Fails to compile with a message about the first member that a `tensor_framework` lacks.
template <class F>
[[noreturn]] void refuse_framework() {
  constexpr bool met = tensor_framework<F>;
  using T = typename F::tensor;
  if constexpr (!std::copyable<F> || !std::copyable<T>)
    static_assert(met, "framework: it and its type tensor must be copyable");
  else if constexpr (!requires(F& f, T const& t) {
                       { f.view(t) } -> std::same_as<tensor_view>;
                     })
    static_assert(met, "framework: view(tensor) is needed, which returns a tensor_view");
  else if constexpr (!requires(F& f, tensor_view const& v) {
                       { f.wrap(v) } -> std::same_as<T>;
                     })
    static_assert(met, "framework: wrap(tensor_view) is needed, which returns a tensor");
  else if constexpr (!requires(F& f, T const& t) {
                       { f.copy(t) } -> std::same_as<T>;
                     })
    static_assert(met, "framework: copy(tensor) is needed, which returns a tensor");
  else if constexpr (!requires(F& f, T const& t, tensor_view const& v) { f.write(t, v); })
    static_assert(met, "framework: write(tensor, tensor_view) is needed");
  else if constexpr (!requires(F& f, T const& t, tensor_view const& v, double x) { f.add(t, v, x); })
    static_assert(met, "framework: add(tensor, tensor_view, double) is needed");
  else if constexpr (!requires(F& f, tensor_view const& v, double x) { f.fill(v, x); })
    static_assert(met, "framework: fill(tensor_view, double) is needed");
  else
    static_assert(met,
                  "framework: call(operator_call<tensor>) is needed, which returns a model_value<tensor>");
  throw;
}

}  // namespace cleave::detail
