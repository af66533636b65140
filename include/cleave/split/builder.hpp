// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>
#include <utility>

#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::detail {

/// What a builder calls a value in the graph that it builds: whatever `argument` returns.
template <class Builder, class Graph>
using made_t = std::remove_cvref_t<decltype(std::declval<Builder&>().argument(std::declval<value_t<Graph>>(),
                                                                              source::input))>;

}  // namespace cleave::detail

namespace cleave {

/// Where a stage is written out, in the user's own IR; one for each stage.
/// - `b.argument(v, from)`  the new graph's own name for a value that the stage is given: inputs first, then
///                          state. State that another stage sends is an input, from a node.
/// - `b.clone(n, lookup)`   copies `n`; returns its new names for the results of `n`, a range in their order.
///                          `lookup(v)` is the new name of what `n` or one of its bodies reads.
/// - `b.result(v, made)`    the stage gives `v`, which it calls `made`; after all nodes, in the order of its
///                          outputs.
template <class Builder, class Graph>
concept stage_builder =
    dataflow_graph<Graph> &&
    requires(Builder& b, node_t<Graph> n, value_t<Graph> v, detail::made_t<Builder, Graph> made,
             detail::made_t<Builder, Graph> (*lookup)(value_t<Graph>)) {
      { b.clone(n, lookup) } -> range_of<detail::made_t<Builder, Graph>>;
      b.result(v, made);
    };

}  // namespace cleave

namespace cleave::detail {

template <class Builder, class Graph>
concept unfinished_builder = dataflow_graph<Graph> && !stage_builder<Builder, Graph>;

/// Says the first thing that an unfinished_builder lacks.
template <class Builder, class Graph>
[[noreturn]] void refuse_builder() {
  using N = node_t<Graph>;
  using V = value_t<Graph>;
  if constexpr (!requires { requires !std::is_void_v<made_t<Builder, Graph>>; }) {
    static_assert(is_met<Builder>,
                  "argument(v, from): a member is needed that returns the new graph's name of v");
  } else {
    using M = made_t<Builder, Graph>;
    if constexpr (!requires(Builder& b, N n, M (*lookup)(V)) { b.clone(n, lookup); })
      static_assert(is_met<Builder>,
                    "clone(n, lookup): a member is needed that copies n and returns a range of the new names "
                    "of its results");
    else if constexpr (!requires(Builder& b, N n, M (*lookup)(V)) {
                         { b.clone(n, lookup) } -> range_of<M>;
                       })
      static_assert(
          is_met<Builder>,
          "clone(n, lookup): return a range of what argument(v, from) returns, a name for each result of n");
    else if constexpr (!requires(Builder& b, V v, M made) { b.result(v, made); })
      static_assert(is_met<Builder>, "result(v, made): a member is needed that is told what the stage gives");
  }
  throw;
}

}  // namespace cleave::detail
