// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <ranges>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/graph/snapshot_arrays.hpp"

/// Backward passes as graphs. A node is one operation run backward. It receives a gradient for each result of
/// the operation and sends one for each operand.
namespace cleave::inline v0_2 {

/// An edge along which a node sends the gradient of one operand.
template <std::unsigned_integral Index>
struct gradient_edge {
  Index to = none<Index>;  ///< receiving node; none if the operand needs no gradient
  std::uint32_t slot = 0;  ///< number of the result of `to` that the gradient belongs to

  bool operator==(gradient_edge const&) const = default;
};

/// The backward pass of a stage as flat arrays. Optional data that is absent is an empty array.
template <std::unsigned_integral Index>
struct basic_backward_graph {
  using index_type = Index;

  detail::csr<Index, gradient_edge<Index>> next;   ///< for each node: an edge for each operand, in order
  std::vector<Index> outputs, inputs, parameters;  ///< nodes of the stage; in any order, repeats are ignored
  std::vector<std::size_t> bytes;  ///< for each node: the bytes of all gradients that arrive at it
  std::vector<double> cost;        ///< for each edge, by its index in `next.item`
  detail::csr<Index, char> name;   ///< for each node; may be empty

  std::size_t nodes() const { return next.rows(); }

  /// Returns the label of a node in messages: `MulBackward (#4)`, or `#4` without a name.
  std::string label(std::size_t n) const { return detail::label_of_row(name, n); }
};

using backward_arrays = basic_backward_graph<std::uint32_t>;

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A fault of a backward graph, and its node or edge.
struct backward_graph_fault {
  enum class kind : std::uint8_t {
    rows,     ///< `bytes`, `cost` or `name` is neither empty nor of the right length
    edge,     ///< `node` sends a gradient to a node that does not exist
    place,    ///< `node`, an output, input or parameter, does not exist
    cost,     ///< the cost of an edge of `node` is negative, infinite or not a number
    cycle,    ///< the nodes of `cycle` wait for each other: each sends a gradient to the next
    too_much  ///< the sum of all bytes overflows `std::size_t`
  };
  kind what;
  std::size_t node = none<std::size_t>;
  std::vector<std::size_t> cycle{};

  bool operator==(backward_graph_fault const&) const = default;
};

/// Thrown for arrays that are not a backward graph. The witness is the first fault.
using backward_graph_error = witness_error<backward_graph_fault>;

/// Returns the nodes in topological order: each follows the nodes that send it gradients, and nodes that
/// become ready earlier come first. If there is a cycle, its nodes are missing. Reads only `next`. O(V + E).
/// Source: Kahn, CACM 5(11), 1962.
template <std::unsigned_integral Index>
std::vector<Index> gradient_order(basic_backward_graph<Index> const& g) {
  std::vector<Index> missing(g.nodes()), order;
  order.reserve(g.nodes());
  for (auto const& e : g.next.item)
    if (e.to != none<Index>) ++missing[e.to];
  for (std::size_t n = 0; n < missing.size(); ++n)
    if (missing[n] == 0) order.push_back(static_cast<Index>(n));
  for (std::size_t i = 0; i < order.size(); ++i)
    for (auto const& e : g.next[order[i]])
      if (e.to != none<Index> && --missing[e.to] == 0) order.push_back(e.to);
  return order;
}

/// Returns a cycle in which each node sends a gradient to the next and the last to the first. It starts at
/// its smallest node.
/// \pre the graph has a cycle
template <std::unsigned_integral Index>
std::vector<std::size_t> gradient_cycle(basic_backward_graph<Index> const& g) {
  dependency_table t;
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    for (auto const& e : g.next[n])
      if (e.to != none<Index>) t.predecessors.add(e.to);
    t.predecessors.close();
  }
  t.successors = transposed(t.predecessors);
  auto cycle = cycle_outside(t, ready_order(t));
  std::ranges::reverse(cycle);
  std::ranges::rotate(cycle, std::ranges::min_element(cycle));
  return cycle;
}

/// Returns the first fault of `g`, or nothing. O(V + E); with a cycle O((V + E) log V).
template <std::unsigned_integral Index>
std::optional<backward_graph_fault> find_backward_graph_fault(basic_backward_graph<Index> const& g) {
  using enum backward_graph_fault::kind;
  auto const fits = [](std::size_t have, std::size_t want) { return have == 0 || have == want; };
  if (!fits(g.bytes.size(), g.nodes()) || !fits(g.cost.size(), g.next.item.size()) ||
      !fits(g.name.rows(), g.nodes()))
    return backward_graph_fault{rows};
  for (auto const* list : {&g.outputs, &g.inputs, &g.parameters})
    for (Index const n : *list)
      if (n >= g.nodes()) return backward_graph_fault{place, n};
  std::size_t total = 0;
  for (auto const b : g.bytes) {
    total += b;
    if (total < b) return backward_graph_fault{too_much};
  }
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    for (auto const& e : g.next[n])
      if (e.to != none<Index> && e.to >= g.nodes()) return backward_graph_fault{edge, n};
    if (!g.cost.empty())
      for (std::size_t i = g.next.first[n]; i < g.next.first[n + 1]; ++i)
        if (!is_finite(g.cost[i]) || g.cost[i] < 0) return backward_graph_fault{cost, n};
  }
  if (gradient_order(g).size() < g.nodes())
    return backward_graph_fault{cycle, none<std::size_t>, gradient_cycle(g)};
  return std::nullopt;
}

/// Returns one sentence that uses the names of the graph.
template <std::unsigned_integral Index>
std::string backward_graph_fault_text(basic_backward_graph<Index> const& g, backward_graph_fault const& f) {
  using enum backward_graph_fault::kind;
  auto const node = [&] { return "node " + g.label(f.node); };
  auto const absent = [&] {
    return "#" + std::to_string(f.node) + ", which does not exist; there are " + std::to_string(g.nodes()) +
           " nodes";
  };
  switch (f.what) {
    case rows:
      return "bytes and names need one entry per node and costs one per edge, or must be empty";
    case edge:
      return node() + " sends a gradient to a node that does not exist; the number of nodes is " +
             std::to_string(g.nodes());
    case place:
      return "an output, input or parameter is node " + absent();
    case cost:
      return "the cost of an edge of " + node() + " must be finite and not negative";
    case too_much:
      return "the sum of the bytes of all nodes overflows std::size_t";
    case cycle:
      break;
  }
  std::string text = "gradients form a cycle:";
  for (std::size_t i = 0; i < f.cycle.size() && i < 8; ++i)
    text += (i == 0 ? " node " : " -> ") + g.label(f.cycle[i]);
  return text + (f.cycle.size() > 8 ? " -> ..." : " -> " + g.label(f.cycle.front()));
}

/// Checks `g`.
/// \throws backward_graph_error
template <std::unsigned_integral Index>
void check_backward_graph(basic_backward_graph<Index> const& g) {
  if (auto f = find_backward_graph_fault(g))
    throw backward_graph_error("backward graph: " + backward_graph_fault_text(g, *f), *f);
}

/// Returns the nodes that gradients of the outputs reach, breadth first, each once. O(V + E).
template <std::unsigned_integral Index>
std::vector<Index> reached_by_gradients(basic_backward_graph<Index> const& g) {
  std::vector<char> seen(g.nodes());
  std::vector<Index> order;
  auto const meet = [&](Index n) {
    if (n != none<Index> && !std::exchange(seen[n], 1)) order.push_back(n);
  };
  for (Index const n : g.outputs) meet(n);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (auto const& e : g.next[order[i]]) meet(e.to);
  return order;
}

/// Returns, for each node, the nodes that send it a gradient originating from an output. Each sender is
/// listed once, in the order of a breadth-first walk from the outputs. O(V + E).
template <std::unsigned_integral Index>
csr<Index> gradient_senders(basic_backward_graph<Index> const& g) {
  auto const order = reached_by_gradients(g);
  csr<Index> senders;
  std::vector<Index> last;
  auto const each = [&](auto f) {
    last.assign(g.nodes(), none<Index>);
    for (Index const n : order)
      for (auto const& e : g.next[n])
        if (e.to != none<Index> && std::exchange(last[e.to], n) != n) f(e.to, n);
  };
  senders.first.assign(g.nodes() + 1, 0);
  each([&](Index to, Index) { ++senders.first[to + std::size_t{1}]; });
  for (std::size_t n = 0; n < g.nodes(); ++n) senders.first[n + 1] += senders.first[n];
  senders.item.resize(senders.first.back());
  each([&, at = senders.first](Index to, Index n) mutable { senders.item[at[to]++] = n; });
  return senders;
}

/// Returns, for each node, 1 if it is one of `ends` or if gradients flow from it to one of them. Only
/// gradients that originate from an output count. O(V + E).
template <std::unsigned_integral Index>
std::vector<char> backward_reachable(csr<Index> const& senders, std::vector<Index> const& ends) {
  std::vector<char> leads(senders.rows());
  std::vector<Index> rest;
  auto const meet = [&](Index n) {
    if (!std::exchange(leads[n], 1)) rest.push_back(n);
  };
  for (Index const n : ends) meet(n);
  while (!rest.empty()) {
    Index const n = rest.back();
    rest.pop_back();
    for (Index const m : senders[n]) meet(m);
  }
  return leads;
}

}  // namespace cleave::detail

/// Concepts by which an autograd exposes its backward passes to the library.
namespace cleave::inline v0_2 {

/// The target of the gradient of one operand. `node` is empty if the operand needs no gradient.
template <class Node>
struct next_gradient {
  std::optional<Node> node;
  std::uint32_t slot = 0;  ///< number of the result of `node` that the gradient belongs to
};

/// The type of the handles of nodes.
template <class Pass>
using backward_node_t = std::ranges::range_value_t<decltype(std::declval<Pass const&>().outputs())>;

/// The backward pass of a stage, read from its outputs. Nodes are handles, as in a graph.
/// - `g.outputs()` returns the nodes that made the results of the stage; gradients start there.
/// - `g.inputs()` returns the leaves whose gradients another stage waits for.
/// - `g.parameters()` returns the leaves whose gradients are only accumulated.
/// - `g.next(n)` returns a `next_gradient` for each operand of the operation that `n` runs backward.
template <class Pass>
concept backward_pass = requires(Pass const& g) {
  { g.outputs() } -> std::ranges::input_range;
} && handle<backward_node_t<Pass>> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.inputs() } -> range_of<backward_node_t<Pass>>;
  { g.parameters() } -> range_of<backward_node_t<Pass>>;
  { g.next(n) } -> range_of<next_gradient<backward_node_t<Pass>>>;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A backward pass with known sizes.
/// - `g.bytes(n)` returns the bytes of all gradients that arrive at `n`; 0 if unknown.
template <class Pass>
concept sized_backward_pass = backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.bytes(n) } -> std::convertible_to<std::size_t>;
};

/// A backward pass with known costs.
/// - `g.cost(n, i)` returns the cost of computing the gradient of operand `i` of `n`, in any one unit; finite
///   and not negative.
template <class Pass>
concept weighted_backward_pass =
    backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n, std::size_t i) {
      { g.cost(n, i) } -> std::convertible_to<double>;
    };

/// A backward pass with names.
/// - `g.name(n)` returns the name of the node in messages; may be empty and need not be unique.
template <class Pass>
concept named_backward_pass = backward_pass<Pass> && requires(Pass const& g, backward_node_t<Pass> n) {
  { g.name(n) } -> std::convertible_to<std::string_view>;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A backward pass as flat arrays, with the mapping to the user's handles.
template <class Pass>
struct backward_snapshot : backward_arrays {
  numbering<backward_node_t<Pass>, std::uint32_t> node;  ///< number to handle and back
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Reads all nodes that have a number and no row yet, and the nodes reached from them. Helper of
/// `backward_snapshot_of`.
template <class Pass>
void read_rows(Pass const& g, backward_snapshot<Pass>& s) {
  for (std::size_t at = s.nodes(); at < s.node.size(); ++at) {
    auto const n = s.node[static_cast<std::uint32_t>(at)];
    std::size_t operand = 0;
    for (next_gradient<backward_node_t<Pass>> const& e : g.next(n)) {
      s.next.add({e.node ? s.node.insert(*e.node) : none<std::uint32_t>, e.slot});
      if constexpr (weighted_backward_pass<Pass>) s.cost.push_back(g.cost(n, operand));
      ++operand;
    }
    s.next.close();
    if constexpr (sized_backward_pass<Pass>) s.bytes.push_back(g.bytes(n));
    if constexpr (named_backward_pass<Pass>) {
      for (char const c : std::string_view(g.name(n))) s.name.add(c);
      s.name.close();
    }
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Reads `g` once into flat arrays. Nodes are numbered breadth first from the outputs, followed by inputs and
/// parameters that are not reachable from them. Expected O(V + E).
///
/// \throws index_overflow beyond 2^32 - 2 nodes or edges
template <backward_pass Pass>
backward_snapshot<Pass> backward_snapshot_of(Pass const& g) {
  using N = backward_node_t<Pass>;
  static_assert(
      detail::sized_backward_pass<Pass> || !requires(Pass& p, N n) { p.bytes(n); },
      "bytes(n): make it const, a size");
  static_assert(
      detail::weighted_backward_pass<Pass> || !requires(Pass& p, N n) { p.cost(n, std::size_t{}); },
      "cost(n, i): make it const, a number");
  static_assert(
      detail::named_backward_pass<Pass> || !requires(Pass& p, N n) { p.name(n); },
      "name(n): make it const, a string");
  backward_snapshot<Pass> s;
  for (auto&& n : g.outputs()) s.outputs.push_back(s.node.insert(n));
  detail::read_rows(g, s);
  for (auto&& n : g.inputs()) s.inputs.push_back(s.node.insert(n));
  for (auto&& n : g.parameters()) s.parameters.push_back(s.node.insert(n));
  detail::read_rows(g, s);
  return s;
}

/// Returns the backward pass that a reverse-mode autograd would record for `g`.
///
/// Node n runs node n of `g` backward. After these nodes comes a leaf for each input and then for each state
/// value. The inputs of the stage are the inputs of `g`; its parameters are the state. The bytes of a node
/// are the bytes of its results. The gradient of each operand costs as much as the node weighs, as in matrix
/// products. An operand that is read several times counts each time.
///
/// \param needs_gradient for each value, nonzero if it needs a gradient; only inputs and state are read;
/// empty means that all need one. A node needs no gradient if its operands need none, and constants need none
/// \throws index_overflow if nodes, inputs and state together exceed the index type
///
/// O(V + E).
template <std::unsigned_integral Index>
basic_backward_graph<Index> backward_of(basic_snapshot_arrays<Index> const& g,
                                        std::vector<char> const& needs_gradient = {}) {
  basic_backward_graph<Index> b;
  std::vector<gradient_edge<Index>> made_by(g.values());  // for each value: the target of its gradient
  std::vector<Index> leaves;                              // values that have a leaf
  auto const add_leaves = [&](std::vector<Index> const& values, std::vector<Index>& list) {
    for (Index const v : values) {
      if (!needs_gradient.empty() && !needs_gradient[v]) continue;
      made_by[v] = {narrow<Index>(g.nodes() + leaves.size()), 0};
      list.push_back(made_by[v].to);
      leaves.push_back(v);
    }
  };
  add_leaves(g.inputs, b.inputs);
  add_leaves(g.state, b.parameters);

  auto const bytes = [&](Index v) { return g.bytes.empty() ? std::size_t{0} : g.bytes[v]; };
  for (std::size_t n = 0; n < g.nodes(); ++n) {
    bool needed = false;
    for (Index const v : g.operands[n]) {
      b.next.add(made_by[v]);
      needed |= made_by[v].to != none<Index>;
      if (!g.weight.empty()) b.cost.push_back(g.weight[n]);
    }
    b.next.close();
    std::size_t arrives = 0;
    std::uint32_t slot = 0;
    for (Index const v : g.results[n]) {
      if (needed) made_by[v] = {static_cast<Index>(n), slot++};
      arrives += bytes(v);
      if (arrives < bytes(v)) arrives = static_cast<std::size_t>(-1);  // saturates: an overflow
    }
    if (!g.bytes.empty()) b.bytes.push_back(arrives);
    if (g.name.rows() == g.nodes()) {
      for (char const c : g.name[n]) b.name.add(c);
      b.name.close();
    }
  }
  for (Index const v : leaves) {
    b.next.close();
    if (!g.bytes.empty()) b.bytes.push_back(bytes(v));
    if (g.name.rows() == g.nodes() && g.nodes() > 0) b.name.close();
  }
  for (Index const v : g.outputs)
    if (made_by[v].to != none<Index>) b.outputs.push_back(made_by[v].to);
  return b;
}
}  // namespace cleave
