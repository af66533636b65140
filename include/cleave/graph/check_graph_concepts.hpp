// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdlib>
#include <ranges>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2::detail {

/// The return type of overloads for types that are meant as graphs but lack a member. A call of such an
/// overload does not compile, and a static assertion in its body says why. The deleted destructor makes
/// `requires` expressions detect this. The conversion to any type prevents follow-up errors, so that one
/// mistake gives one message.
struct refused {
  ~refused() = delete;  // the static assertion says why
  template <class T>
  operator T() const;
};

/// A type that has a member of a graph and is not one of the library's own arrays.
template <class T>
concept meant_as_graph = (requires(T& g) { g.nodes(); } || requires { &T::operands; }) &&
                         !requires(T const& g) { []<class Index>(basic_snapshot_arrays<Index> const&) {}(g); };

/// A type that is meant as a graph but is not a `dataflow_graph`.
template <class T>
concept unfinished_graph = meant_as_graph<T> && !dataflow_graph<T>;

/// A type that is meant as a graph but lacks weights or sizes.
template <class T>
concept uncosted_graph = meant_as_graph<T> && !(weighted_graph<T> && sized_graph<T>);

/// Always false. It depends on a type, so that a `static_assert` fails only when its template is
/// instantiated.
template <class...>
inline constexpr bool is_met = false;

/// True for a pointer to a function with one parameter. If a member of a graph is one, but has not the
/// parameter of the concept, it is still meant to be the member of the concept.
template <class>
inline constexpr bool one_argument = false;
template <class R, class C, class A, bool N>
inline constexpr bool one_argument<R (C::*)(A) noexcept(N)> = true;
template <class R, class C, class A, bool N>
inline constexpr bool one_argument<R (C::*)(A) const noexcept(N)> = true;
template <class R, class A, bool N>
inline constexpr bool one_argument<R (*)(A) noexcept(N)> = true;

/// Fails to compile with a message about the first member that an `unfinished_graph` lacks.
template <class Graph>
[[noreturn]] void refuse_graph() {
  constexpr bool lists_nodes = requires(Graph const& g) {
    { g.nodes() } -> std::ranges::forward_range;
  };
  if constexpr (!lists_nodes)
    static_assert(is_met<Graph>,
                  "nodes(): a const member is needed that returns a forward range of all nodes");
  else if constexpr (!handle<node_t<Graph>>)
    static_assert(is_met<Graph>,
                  "nodes(): a node needs ==, a default, copies and a std::hash: list pointers or indices");
  else if constexpr (!requires(Graph const& g, node_t<Graph> n) {
                       { g.operands(n) } -> std::ranges::input_range;
                     })
    static_assert(is_met<Graph>,
                  "operands(n): a const member is needed that returns a range of the values that n reads");
  else if constexpr (!handle<value_t<Graph>>)
    static_assert(
        is_met<Graph>,
        "operands(n): a value needs ==, a default, copies and a std::hash: list pointers or indices");
  else if constexpr (!dataflow_graph<Graph>)
    static_assert(is_met<Graph>,
                  "results(n): a const member is needed that returns a range of value_t, the values that n "
                  "makes; it may be left out only if each node is its own result");
  std::abort();
}

/// Fails to compile with a message about the first member that an `uncosted_graph` lacks.
template <class Graph>
[[noreturn]] void refuse_costs() {
  if constexpr (!dataflow_graph<Graph>)
    refuse_graph<Graph>();
  else if constexpr (!multi_result<Graph> && requires { requires one_argument<decltype(&Graph::results)>; })
    static_assert(
        is_met<Graph>,
        "results(n): make it const, a range of value_t, the type that operands(n) lists, for an n of "
        "node_t");
  else if constexpr (!weighted_graph<Graph>)
    static_assert(is_met<Graph>,
                  "weight(n): a const member is needed that returns a number, the cost of running n");
  else
    static_assert(is_met<Graph>,
                  "bytes(v): a const member is needed that returns the bytes that move when v crosses a "
                  "boundary, or 0 if unknown; v has the type that operands(n) lists");
  std::abort();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Checks at compile time that no member of an adapter has a wrong signature, such as a missing `const` or a
/// wrong type. Otherwise the ability would be ignored silently. Each function that reads a graph calls this
/// first. A misspelt member cannot be detected: an adapter should `static_assert` the concepts that it means
/// to satisfy.
template <dataflow_graph Graph>
consteval void check_graph_concepts() {
  using N = node_t<Graph>;
  using V = value_t<Graph>;
  static_assert(
      multi_result<Graph> || !requires(Graph& g, N n) { g.results(n); },
      "results(n): make it const, a range of value_t");
  static_assert(
      weighted_graph<Graph> || !requires(Graph& g, N n) { g.weight(n); },
      "weight(n): make it const, a number");
  static_assert(
      sized_graph<Graph> || !requires(Graph& g, V v) { g.bytes(v); }, "bytes(v): make it const, a size");
  static_assert(
      function_graph<Graph> || !(
                                   requires(Graph& g) { g.inputs(); } || requires(Graph& g) { g.outputs(); }),
      "inputs() and outputs(): both, const, ranges of value_t");
  static_assert(
      stateful_graph<Graph> || !requires(Graph& g) { g.state(); },
      "state(): make it const, a range of value_t, in addition to inputs() and outputs()");
  static_assert(
      closed_graph<Graph> || !requires(Graph& g) { g.constants(); },
      "constants(): make it const, a range of value_t, in addition to inputs() and outputs()");
  static_assert(
      tied_graph<Graph> || !(
                               requires(Graph& g, V v) { g.storage(v); } ||
                               requires { requires detail::one_argument<decltype(&Graph::storage)>; }),
      "storage(v): make it const, a handle, for a v of value_t");
  static_assert(
      aliasing_graph<Graph> || !(
                                   requires(Graph& g, N n) { g.overwrites(n); } ||
                                   requires { requires detail::one_argument<decltype(&Graph::overwrites)>; }),
      "overwrites(n): make it const, a range of value_t, for an n of node_t, in addition to storage(v)");
  static_assert(replicating_graph<Graph> ||
                    !(
                        requires(Graph& g, N n) { g.replicable(n); } ||
                        requires { requires detail::one_argument<decltype(&Graph::replicable)>; }),
                "replicable(n): make it const, a bool, for an n of node_t");
  static_assert(
      bounded_graph<Graph> || !(
                                  requires(Graph& g, V v) { g.portable(v); } ||
                                  requires { requires detail::one_argument<decltype(&Graph::portable)>; }),
      "portable(v): make it const, a bool, for a v of value_t");
  static_assert(
      nested_graph<Graph> || !requires(Graph& g, N n) { g.regions(n); },
      "regions(n), and of a region nodes(r), arguments(r), yields(r): all four, const");
  static_assert(
      effectful_graph<Graph> || !requires(Graph& g, N n) { g.after(n); },
      "after(n): make it const, a range of node_t");
  static_assert(
      grouped_graph<Graph> || !(
                                  requires(Graph& g, N n) { g.together(n); } ||
                                  requires { requires detail::one_argument<decltype(&Graph::together)>; }),
      "together(n): make it const, a range of node_t, for an n of node_t");
  static_assert(
      carrying_graph<Graph> || !(
                                   requires(Graph& g, V v) { g.carried(v); } ||
                                   requires { requires detail::one_argument<decltype(&Graph::carried)>; }),
      "carried(v): make it const, a range of value_t, for a v of value_t, in addition to inputs() and "
      "outputs()");
  static_assert(accompanied_graph<Graph> ||
                    !(
                        requires(Graph& g, V v) { g.companions(v); } ||
                        requires { requires detail::one_argument<decltype(&Graph::companions)>; }),
                "companions(v): make it const, a range of value_t, for a v of value_t");
  static_assert(
      named_graph<Graph> || !requires(Graph& g, N n) { g.name(n); }, "name(n): make it const, a string");
  static_assert(
      hierarchical_graph<Graph> || !requires(Graph& g, N n) { g.path(n); },
      "path(n): make it const, a string");
}

}  // namespace cleave
