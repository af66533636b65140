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

/// The concepts that define a graph. Start reading here.
///
/// An IR is adapted by a small class with the members below. Nothing is specialised, registered or found by
/// argument-dependent lookup. If each node is its own result, `nodes()` and `operands(n)` are enough. Each
/// further concept adds one ability, and an algorithm requires only the concepts that its body uses.
namespace cleave::inline v0_2 {

/// A small value that names a node or a value: an index, a pointer, a descriptor. If an IR's own type has no
/// `std::hash`, name nodes and values by pointers or indices.
template <class T>
concept handle = std::regular<T> && requires(T t) {
  { std::hash<T>{}(t) } -> std::convertible_to<std::size_t>;
};

/// A range whose elements are of type `Value`.
template <class Range, class Value>
concept range_of = std::ranges::input_range<Range> && std::same_as<std::ranges::range_value_t<Range>, Value>;

/// The type of a graph's nodes: the elements of `nodes()`.
template <class Graph>
using node_t = std::ranges::range_value_t<decltype(std::declval<Graph const&>().nodes())>;

/// The type of a graph's values: the elements of `operands(n)`.
template <class Graph>
using value_t = std::ranges::range_value_t<decltype(std::declval<Graph const&>().operands(
    std::declval<node_t<Graph>>()))>;

/// A graph whose nodes name their results.
/// - `g.results(n)`  the values that `n` produces, in order.
template <class Graph>
concept multi_result = requires(Graph const& g, node_t<Graph> n) {
  { g.results(n) } -> range_of<value_t<Graph>>;
};

/// A computation: nodes consume values that other nodes produce.
/// - `g.nodes()`  every node once, each after the producers of its operands.
/// - `g.operands(n)`  the values that `n` consumes, in argument order. A value that no node produces comes
///   from outside.
/// - `g.results(n)`  may be left out if each node is its own only result (value_t is node_t).
template <class Graph>
concept dataflow_graph = requires(Graph const& g) {
  { g.nodes() } -> std::ranges::forward_range;
} && handle<node_t<Graph>> && requires(Graph const& g, node_t<Graph> n) {
  { g.operands(n) } -> std::ranges::input_range;
} && handle<value_t<Graph>> && (multi_result<Graph> || std::same_as<value_t<Graph>, node_t<Graph>>);

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the values that `n` produces, for every graph: `g.results(n)`, or `n` itself.
template <dataflow_graph Graph>
decltype(auto) results_of(Graph const& g, node_t<Graph> n) {
  if constexpr (multi_result<Graph>)
    return g.results(n);
  else
    return std::views::single(n);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A graph whose nodes have costs.
/// - `g.weight(n)`  the cost of running `n`, in any one unit; finite, not negative.
template <class Graph>
concept weighted_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.weight(n) } -> std::convertible_to<double>;
};

/// A graph whose values have sizes.
/// - `g.bytes(v)`  the number of bytes that move when `v` crosses a boundary; 0 if unknown.
template <class Graph>
concept sized_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.bytes(v) } -> std::convertible_to<std::size_t>;
};

/// A graph that is called with arguments and returns results.
/// - `g.inputs()`  the caller's arguments, in order.
/// - `g.outputs()`  the values that the caller gets back, in order.
template <class Graph>
concept function_graph = dataflow_graph<Graph> && requires(Graph const& g) {
  { g.inputs() } -> range_of<value_t<Graph>>;
  { g.outputs() } -> range_of<value_t<Graph>>;
};

/// A graph with parameters and buffers.
/// - `g.state()`  the parameters and buffers, disjoint from `inputs()`. Any other value that no node produces
///   is a constant and is placed like state.
template <class Graph>
concept stateful_graph = function_graph<Graph> && requires(Graph const& g) {
  { g.state() } -> range_of<value_t<Graph>>;
};

/// A graph that lists all its constants.
/// - `g.constants()`  all values that no node produces and that are neither inputs nor state. Any other
///   operand is then reported as a mistake.
template <class Graph>
concept closed_graph = function_graph<Graph> && requires(Graph const& g) {
  { g.constants() } -> range_of<value_t<Graph>>;
};

/// A graph that knows which values share memory.
/// - `g.storage(v)`  a handle that is equal for two values that share memory (ties, views, caches).
template <class Graph>
concept tied_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  requires handle<std::remove_cvref_t<decltype(g.storage(v))>>;
};

/// A graph whose nodes may write memory in place.
/// - `g.overwrites(n)`  the values whose memory `n` writes, including the writes of its bodies. `results(n)`
///   may name the new contents by new handles, by the same handles, or not at all.
template <class Graph>
concept aliasing_graph = tied_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.overwrites(n) } -> range_of<value_t<Graph>>;
};

/// A graph with nodes that are copied rather than sent.
/// - `g.replicable(n)`  true if running `n` again elsewhere costs nothing and gives the same result
///   (constants, shapes). Such a node is copied into each stage that reads it and its results are never sent,
///   provided that its operands are available in every stage.
template <class Graph>
concept replicating_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.replicable(n) } -> std::convertible_to<bool>;
};

/// A graph with values that cannot be sent.
/// - `g.portable(v)`  false if `v` cannot cross a boundary (objects, tokens, tuples). Its producer and its
///   users then stay together.
template <class Graph>
concept bounded_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.portable(v) } -> std::convertible_to<bool>;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

template <class Graph>
using region_t =
    std::ranges::range_value_t<decltype(std::declval<Graph const&>().regions(std::declval<node_t<Graph>>()))>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A graph whose nodes may have bodies: If, Loop, calls. The values that a body captures are operands of the
/// node that holds it; the snapshot adds them.
/// - `g.regions(n)`  the bodies of `n`. For each of these regions `r`:
/// - `g.nodes(r)`  its nodes, in any order,
/// - `g.arguments(r)`  the values that it defines on entry,
/// - `g.yields(r)`  the values that it returns.
template <class Graph>
concept nested_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.regions(n) } -> std::ranges::input_range;
} && requires(Graph const& g, detail::region_t<Graph> r) {
  { g.nodes(r) } -> range_of<node_t<Graph>>;
  { g.arguments(r) } -> range_of<value_t<Graph>>;
  { g.yields(r) } -> range_of<value_t<Graph>>;
};

/// A graph with an order of nodes that no value implies.
/// - `g.after(n)`  nodes that `n` must follow although it reads none of their values, because of effects
///   other than those on memory (printing, random state).
template <class Graph>
concept effectful_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.after(n) } -> range_of<node_t<Graph>>;
};

/// A graph with nodes that must share a part.
/// - `g.together(n)`  nodes that must share the part of `n` although no value implies it, such as the reads
///   and writes of a variable. It is enough if one of two nodes names the other. Replicable nodes among them
///   are ignored.
template <class Graph>
concept grouped_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.together(n) } -> range_of<node_t<Graph>>;
};

/// A graph whose runs leave values for the next run, such as the keys and values of earlier tokens.
/// - `g.carried(v)`  the value that becomes the input `v` in the next run, or nothing. The node that makes it
///   and the readers of `v` share a part, so that no stage sends it. Replicable nodes among them are ignored.
template <class Graph>
concept carrying_graph = function_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.carried(v) } -> range_of<value_t<Graph>>;
};

/// A graph with values that are sent along with others.
/// - `g.companions(v)`  values that are sent wherever `v` is sent, even if no node reads them there, such as
///   the sizes in the shape of `v`. The producer of a companion may come after the users of `v`.
template <class Graph>
concept accompanied_graph = dataflow_graph<Graph> && requires(Graph const& g, value_t<Graph> v) {
  { g.companions(v) } -> range_of<value_t<Graph>>;
};

/// A graph whose nodes have names.
/// - `g.name(n)`  the node's name in messages; may be empty, need not be unique.
template <class Graph>
concept named_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

/// A graph whose nodes belong to modules.
/// - `g.path(n)`  the path of the module in which the node was written, outermost first ("encoder.block.3").
template <class Graph>
concept hierarchical_graph = dataflow_graph<Graph> && requires(Graph const& g, node_t<Graph> n) {
  { g.path(n) } -> std::convertible_to<std::string_view>;
};

}  // namespace cleave
