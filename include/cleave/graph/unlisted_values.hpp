// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/detail/captures.hpp"
#include "cleave/graph/memory.hpp"
#include "cleave/graph/numbering.hpp"

namespace cleave::inline v0_2 {

/// A value that no node makes and no list of the graph names, and the place where it is first read. `node` is
/// the position of the reader. `operand` is the value's number among those that the node reads:
/// `operands(n)`, then the captures of its bodies, then `overwrites(n)`.
template <class Value>
struct unlisted_value {
  std::size_t node, operand;
  Value value;

  bool operator==(unlisted_value const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Calls `f(v)` with each value that node `n` reads: its operands, the captures of its bodies, and the values
/// that it overwrites.
template <dataflow_graph Graph, class F>
void each_read(Graph const& g, node_t<Graph> n, F f) {
  for (auto v : g.operands(n)) f(v);
  if constexpr (nested_graph<Graph>)
    for (auto v : captures(g, n)) f(v);
  if constexpr (aliasing_graph<Graph>)
    for (auto v : g.overwrites(n)) f(v);
}

/// Calls `f(v)` with each value that `inputs()`, `state()` and `constants()` list.
template <dataflow_graph Graph, class F>
void each_argument(Graph const& g, F f) {
  if constexpr (function_graph<Graph>)
    for (auto v : g.inputs()) f(v);
  if constexpr (stateful_graph<Graph>)
    for (auto v : g.state()) f(v);
  if constexpr (closed_graph<Graph>)
    for (auto v : g.constants()) f(v);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the operands that a snapshot takes for constants although `constants()` does not list them, in the
/// order in which they are read. No node makes them, and neither `inputs()` nor `state()` lists them. A
/// mistyped operand is among them. In a graph without `inputs()` they are its inputs. Expected O(V + E).
template <dataflow_graph Graph>
std::vector<unlisted_value<value_t<Graph>>> find_unlisted_values(Graph const& g) {
  using value = value_t<Graph>;
  numbering<value, std::size_t> known;
  detail::each_argument(g, [&](value const& v) { known.insert(v); });
  if constexpr (!aliasing_graph<Graph>)
    for (auto n : g.nodes())
      for (auto v : detail::results_of(g, n)) known.insert(v);

  std::vector<unlisted_value<value>> unlisted;
  auto const is_new = [&](value const& v) {
    auto const size = known.size();
    return known.insert(v) == size;
  };
  if constexpr (aliasing_graph<Graph>) {
    memory<Graph> memory(g);
    std::vector<char> holds(memory.cells());  // of memory: 1 once it holds a value
    auto const hold = [&](value const& v) {
      auto const c = memory.number(v);
      if (c >= holds.size()) holds.resize(c + 1);
      return std::exchange(holds[c], 1) != 0 && memory.cell(c).versioned();
    };
    detail::each_argument(g, hold);
    for (std::size_t at = 0; auto n : g.nodes()) {
      std::size_t operand = 0;
      detail::each_read(g, n, [&](value const& v) {
        bool const held = hold(v);
        if (is_new(v) && !held) unlisted.push_back({at, operand, v});
        ++operand;
      });
      for (auto v : detail::results_of(g, n)) {
        hold(v);
        known.insert(v);  // here, since a write in place reads its memory first
      }
      ++at;
    }
  } else {
    for (std::size_t at = 0; auto n : g.nodes()) {
      std::size_t operand = 0;
      detail::each_read(g, n, [&](value const& v) {
        if (is_new(v)) unlisted.push_back({at, operand, v});
        ++operand;
      });
      ++at;
    }
  }
  return unlisted;
}

}  // namespace cleave
