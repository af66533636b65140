// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>  // std::hash

#include "cleave/core/language.hpp"

/// Page one of the library: what a graph is.
///
/// An IR is adapted by a small class with the members below; nothing is specialised, registered or found by
/// argument-dependent lookup. `nodes()` and `operands(n)` are all that is needed where a node is its own
/// result. Each further concept is one rung, with one ability; an algorithm asks for the rungs that its body
/// uses.
namespace cleave {

/// A small value that names a node or a value: an index, a pointer, a descriptor. Where an IR's own type has
/// no `std::hash`, name the node or value by a pointer or an index.
template <class T>
concept handle = std::regular<T> && requires(T t) {
  { std::hash<T>{}(t) } -> std::convertible_to<std::size_t>;
};

template <class Range, class Value>
concept range_of = std::ranges::input_range<Range> && std::same_as<std::ranges::range_value_t<Range>, Value>;

template <class Graph>
using node_t = std::ranges::range_value_t<decltype(std::declval<Graph const&>().nodes())>;

template <class Graph>
using value_t = std::ranges::range_value_t<decltype(std::declval<Graph const&>().operands(
    std::declval<node_t<Graph>>()))>;

/// Nodes that name what they produce.
/// - `g.results(n)`  the values `n` produces, in order.
template <class Graph>
concept multi_result = requires(Graph const& g, node_t<Graph> n) {
  { g.results(n) } -> range_of<value_t<Graph>>;
};

/// A computation, read as nodes that consume values which other nodes produce.
/// - `g.nodes()`      every node once, each after the producers of its operands.
/// - `g.operands(n)`  the values `n` consumes, in argument order; what no node produces is from outside.
/// - `g.results(n)`   may be left out where a node is its own only result (value_t is node_t).
template <class Graph>
concept dataflow_graph = requires(Graph const& g) {
  { g.nodes() } -> std::ranges::forward_range;
} && handle<node_t<Graph>> && requires(Graph const& g, node_t<Graph> n) {
  { g.operands(n) } -> std::ranges::input_range;
} && handle<value_t<Graph>> && (multi_result<Graph> || std::same_as<value_t<Graph>, node_t<Graph>>);

}  // namespace cleave

namespace cleave::detail {

/// The values `n` produces, for every graph: `g.results(n)`, or `n` itself.
template <dataflow_graph Graph>
decltype(auto) results_of(Graph const& g, node_t<Graph> n) {
  if constexpr (multi_result<Graph>)
    return g.results(n);
  else
    return std::views::single(n);
}

}  // namespace cleave::detail

namespace cleave {

/// - `g.weight(n)`  what running `n` costs, in any one unit; finite, not negative.
template <class Graph>
concept weighted_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.weight(n) } -> std::convertible_to<double>;
};

/// - `g.bytes(v)`  how much moves when `v` crosses a boundary; 0 where nobody knows.
template <class Graph>
concept sized_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.bytes(v) } -> std::convertible_to<std::size_t>;
};

/// - `g.inputs()`   the caller's arguments, in order.
/// - `g.outputs()`  what the caller gets back, in order.
template <class Graph>
concept function_graph = dataflow_graph<Graph> && requires(Graph const& g) {
  { g.inputs() } -> range_of<value_t<Graph>>;
  { g.outputs() } -> range_of<value_t<Graph>>;
};

/// - `g.state()`  parameters and buffers, disjoint from `inputs()`. Any other value that no node produces
///                is a constant and is placed like state.
template <class Graph>
concept stateful_graph = function_graph<Graph> && requires(Graph const& g) {
  { g.state() } -> range_of<value_t<Graph>>;
};

/// - `g.constants()`  all values that no node produces and that are neither inputs nor state. Then any other
///                    operand is a mistake, and found to be one.
template <class Graph>
concept closed_graph = function_graph<Graph> && requires(Graph const& g) {
  { g.constants() } -> range_of<value_t<Graph>>;
};

/// - `g.storage(v)`  a handle, equal where two values share memory (ties, views, caches).
template <class Graph>
concept tied_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  requires handle<std::remove_cvref_t<decltype(g.storage(v))>>;
};

/// + `g.overwrites(n)`  the values whose memory `n`, a body of it included, writes. `results(n)` names what
///                      they hold then by new handles, by the same, or not at all.
template <class Graph>
concept aliasing_graph = tied_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.overwrites(n) } -> range_of<value_t<Graph>>;
};

/// - `g.replicable(n)`  running `n` again elsewhere costs nothing and gives the same (constants, shapes):
///                      it is copied into each stage that needs it and its results are never sent, provided
///                      that all it needs is everywhere.
template <class Graph>
concept replicating_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.replicable(n) } -> std::convertible_to<bool>;
};

/// - `g.portable(v)`  false where `v` cannot cross a boundary (objects, tokens, tuples): its producer and
///                    its users stay together.
template <class Graph>
concept bounded_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.portable(v) } -> std::convertible_to<bool>;
};

}  // namespace cleave

namespace cleave::detail {

template <class Graph>
using region_t =
    std::ranges::range_value_t<decltype(std::declval<Graph const&>().regions(std::declval<node_t<Graph>>()))>;

}  // namespace cleave::detail

namespace cleave {

/// Bodies of If, Loop and calls. What a body captures is an operand of the node that holds it; the snapshot
/// sees to that.
/// - `g.regions(n)`    the bodies of `n`; of a region `r`:
/// - `g.nodes(r)`      its nodes, in any order,
/// - `g.arguments(r)`  the values it defines on entry,
/// - `g.yields(r)`     the values it returns.
template <class Graph>
concept nested_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.regions(n) } -> std::ranges::input_range;
} && requires(Graph const& g, detail::region_t<Graph> r) {
  { g.nodes(r) } -> range_of<node_t<Graph>>;
  { g.arguments(r) } -> range_of<value_t<Graph>>;
  { g.yields(r) } -> range_of<value_t<Graph>>;
};

/// - `g.after(n)`  nodes that `n` must follow although no value says so (printing, random state): effects
///                 without memory.
template <class Graph>
concept effectful_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.after(n) } -> range_of<node_t<Graph>>;
};

/// - `g.together(n)`  nodes that must share the part of `n`, though no value says so: the reads and writes of
///                    a variable. It is enough if one of two names the other. Replicable nodes among them do
///                    not count.
template <class Graph>
concept grouped_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.together(n) } -> range_of<node_t<Graph>>;
};

/// - `g.companions(v)`  values that go wherever `v` goes although nobody may read them there: the sizes that
///                      its shape is written in. What makes one may come after the users of `v`.
template <class Graph>
concept accompanied_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.companions(v) } -> range_of<value_t<Graph>>;
};

/// - `g.name(n)`  what messages call the node; may be empty, need not be unique.
template <class Graph>
concept named_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

/// - `g.path(n)`  the module the node was written in, outermost first ("encoder.block.3").
template <class Graph>
concept hierarchical_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.path(n) } -> std::convertible_to<std::string_view>;
};

}  // namespace cleave
