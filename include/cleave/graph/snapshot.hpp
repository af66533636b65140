// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <vector>

#include "cleave/graph/check_rungs.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/dense.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/snapshot_reader.hpp"

namespace cleave {

/// A graph as flat arrays, and the way back to the user's handles. Not constrained: clang then names the
/// missing member of a graph, not this class.
template <class Graph, std::unsigned_integral Index = std::uint32_t>
struct snapshot : basic_dense<Index> {
  numbering<node_t<Graph>, Index> node;     ///< position <-> handle
  std::vector<value_t<Graph>> value;        ///< of a value: the handle it was last made under
  numbering<value_t<Graph>, Index> handle;  ///< every value handle that the graph mentions …
  std::vector<Index> slot_of_handle;        ///< … and the slot it names

  /// The slot that `v` names, or none.
  Index find_slot(value_t<Graph> const& v) const {
    Index const h = handle.find(v);
    return h == none<Index> ? h : slot_of_handle[h];
  }
};

/// Reads `g` once into flat arrays. Expected O(V + E); all hashing of handles is done here.
///
/// What bodies capture is added to the operands of the node that holds them. Values that no node makes are
/// inputs if `inputs()` lists them, state if `state()` does, else constants; without `inputs()` and
/// `outputs()`, what nobody makes is an input and what nobody reads is an output. Memory that is written in
/// place through one handle at a time gets a new value with each write, which follows the reads of what it
/// destroys; memory that is written and viewed makes its nodes one group, and so does a value that is not
/// portable; `together(n)` makes one, too. A replicable node stays one only if it follows nobody, touches no
/// such memory and all it reads is constant, unwritten state or replicable; its weight is 0.
///
/// \throws adapter_error  where the adapter breaks a promise that no concept can state,
/// \throws cycle_error    where the nodes are out of order because they have none,
/// \throws index_overflow where `Index` is too narrow.
template <std::unsigned_integral Index = std::uint32_t, dataflow_graph Graph>
snapshot<Graph, Index> snapshot_of(Graph const& g) {
  check_rungs<Graph>();
  return detail::snapshot_reader<snapshot<Graph, Index>, Graph>(g).read();
}

template <std::unsigned_integral Index = std::uint32_t, detail::unfinished_graph Graph>
detail::refused snapshot_of(Graph const&) {
  detail::refuse_graph<Graph>();
}

}  // namespace cleave

namespace cleave::detail {

/// Calls `f` with a snapshot of `g` whose indices are 32 bits wide, or 64 where that does not suffice. `f`
/// returns the same type for both.
template <dataflow_graph Graph, class F>
auto with_snapshot(Graph const& g, F f) {
  try {
    return f(snapshot_of<std::uint32_t>(g));
  } catch (index_overflow const&) {
    return f(snapshot_of<std::uint64_t>(g));
  }
}

template <unfinished_graph Graph, class F>
refused with_snapshot(Graph const&, F const&) {
  refuse_graph<Graph>();
}

}  // namespace cleave::detail
