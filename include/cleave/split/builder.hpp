// SPDX-License-Identifier: MIT
#pragma once
#include <cstdlib>
#include <type_traits>
#include <utility>

#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

namespace cleave::inline v0_2::detail {

/// The type by which a builder names values in the graph that it builds: the return type of `argument`.
template <class Builder, class Graph>
using made_t = std::remove_cvref_t<decltype(std::declval<Builder&>().argument(std::declval<value_t<Graph>>(),
                                                                              source::input))>;

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A class that writes one stage into the user's own IR. Each stage has a builder of its own.
/// - `b.argument(v, from)` returns the new graph's name for a value that the stage is given. It is called for
///   the inputs first, then for the state. State that another stage sends is an input whose source is `node`.
/// - `b.clone(n, lookup)` copies `n` and returns a range with the new names of its results, in order.
///   `lookup(v)` returns the new name of a value that `n` or one of its bodies reads.
/// - `b.result(v, made)` makes `v`, whose new name is `made`, an output of the stage. It is called after all
///   nodes, in the order of the stage's outputs.
template <class Builder, class Graph>
concept stage_builder =
    dataflow_graph<Graph> &&
    requires(Builder& b, node_t<Graph> n, value_t<Graph> v, detail::made_t<Builder, Graph> made,
             detail::made_t<Builder, Graph> (*lookup)(value_t<Graph>)) {
      { b.clone(n, lookup) } -> range_of<detail::made_t<Builder, Graph>>;
      b.result(v, made);
    };

}  // namespace cleave

namespace cleave::inline v0_2::detail {

template <class Builder, class Graph>
concept unfinished_builder = dataflow_graph<Graph> && !stage_builder<Builder, Graph>;

/// Fails to compile with a message about the first member that `Builder` lacks.
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
      static_assert(is_met<Builder>,
                    "result(v, made): a member is needed that receives each output of the stage");
  }
  std::abort();
}

}  // namespace cleave::detail
