// SPDX-License-Identifier: MIT
#pragma once
#include "cleave/graph/concepts.hpp"

namespace cleave {

/// A rung missed by an inch (not const, wrong type) must not become an ability that is ignored in silence:
/// whatever reads a graph calls this first. A *misspelt* rung nobody can see: an adapter should
/// `static_assert` the rungs it means to have.
template <dataflow_graph Graph>
consteval void check_rungs() {
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
      "state(): make it const, a range of value_t, beside inputs() and outputs()");
  static_assert(
      tied_graph<Graph> || !requires(Graph& g, V v) { g.storage(v); }, "storage(v): make it const, a handle");
  static_assert(
      aliasing_graph<Graph> || !requires(Graph& g, N n) { g.overwrites(n); },
      "overwrites(n): make it const, a range of value_t, beside storage(v)");
  static_assert(
      replicating_graph<Graph> || !requires(Graph& g, N n) { g.replicable(n); },
      "replicable(n): make it const, a bool");
  static_assert(
      bounded_graph<Graph> || !requires(Graph& g, V v) { g.portable(v); },
      "portable(v): make it const, a bool");
  static_assert(
      nested_graph<Graph> || !requires(Graph& g, N n) { g.regions(n); },
      "regions(n), and of a region nodes(r), arguments(r), yields(r): all four, const");
  static_assert(
      effectful_graph<Graph> || !requires(Graph& g, N n) { g.after(n); },
      "after(n): make it const, a range of node_t");
  static_assert(
      accompanied_graph<Graph> || !requires(Graph& g, V v) { g.companions(v); },
      "companions(v): make it const, a range of value_t");
  static_assert(
      named_graph<Graph> || !requires(Graph& g, N n) { g.name(n); }, "name(n): make it const, a string");
  static_assert(
      hierarchical_graph<Graph> || !requires(Graph& g, N n) { g.path(n); },
      "path(n): make it const, a string");
}

}  // namespace cleave
