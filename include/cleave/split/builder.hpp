// SPDX-License-Identifier: MIT
#pragma once
#include <type_traits>
#include <utility>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"

namespace cleave {

/// What a builder calls a value in the graph that it builds: whatever `argument` returns.
template <class Builder, class Graph>
using made_t = std::remove_cvref_t<decltype(std::declval<Builder&>().argument(std::declval<value_t<Graph>>(),
                                                                              source::input))>;

/// Where a stage is written out, in the user's own IR; one for each stage.
/// - `b.argument(v, from)`  the new graph's own name for a value that the stage is given: inputs first, then
///                          state. State that another stage sends is an input, from a node.
/// - `b.clone(n, lookup)`   copies `n`; returns its new names for the results of `n`, a range in their order.
///                          `lookup(v)` is the new name of what `n` or one of its bodies reads.
/// - `b.result(v, made)`    the stage gives `v`, which it calls `made`; after all nodes, in the order of its
///                          outputs.
template <class Builder, class Graph>
concept stage_builder = dataflow_graph<Graph> &&
                        requires(Builder& b, node_t<Graph> n, value_t<Graph> v, made_t<Builder, Graph> made,
                                 made_t<Builder, Graph> (*lookup)(value_t<Graph>)) {
                          { b.clone(n, lookup) } -> range_of<made_t<Builder, Graph>>;
                          b.result(v, made);
                        };

}  // namespace cleave
