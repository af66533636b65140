// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/cycle.hpp"
#include "cleave/core/error.hpp"
#include "cleave/graph/check_graph_concepts.hpp"
#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/graph/detail/captures.hpp"
#include "cleave/graph/label.hpp"
#include "cleave/graph/numbering.hpp"

/// Orders the nodes of graphs whose `nodes()` may be in any order. `find_cycle` and `topological_order` only
/// require that each node is listed once.
namespace cleave::inline v0_2 {

/// Thrown if a graph cannot be ordered. `witness` is the cycle: each node is a predecessor of the next, and
/// the last of the first.
template <class Node>
class cycle_error : public witness_error<std::vector<Node>> {
 public:
  using witness_error<std::vector<Node>>::witness_error;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// The dependencies between nodes, by position in `nodes()`: through values, captures of bodies and
/// `after(n)`.
struct dependency_table {
  csr<std::size_t> predecessors;  ///< of a node: the nodes that it must follow
  csr<std::size_t> successors;    ///< the reversed edges

  template <dataflow_graph Graph>
  static dependency_table of(Graph const& g);
};

/// Returns the reversed edges: row j lists, ascending, the rows that contain j.
inline csr<std::size_t> transposed(csr<std::size_t> const& table) {
  csr<std::size_t> t;
  t.first.assign(table.rows() + 1, 0);
  t.item.resize(table.item.size());
  for (auto const j : table.item) ++t.first[j + 1];
  for (std::size_t j = 0; j < table.rows(); ++j) t.first[j + 1] += t.first[j];
  auto next = t.first;
  for (std::size_t i = 0; i < table.rows(); ++i)
    for (auto const j : table[i]) t.item[next[j]++] = i;
  return t;
}

template <dataflow_graph Graph>
dependency_table dependency_table::of(Graph const& g) {
  numbering<node_t<Graph>, std::size_t> position;
  numbering<value_t<Graph>, std::size_t> values;
  std::vector<std::size_t> producer;
  for (auto n : g.nodes()) {
    auto const at = position.insert(n);
    for (auto v : results_of(g, n)) {
      auto const number = values.insert(v);
      if (number >= producer.size()) producer.push_back(at);
    }
  }
  dependency_table t;
  auto const depend_on_value = [&](value_t<Graph> const& v) {
    if (auto const made = values.find(v); made != none<std::size_t>) t.predecessors.add(producer[made]);
  };
  for (auto n : g.nodes()) {
    for (auto v : g.operands(n)) depend_on_value(v);
    if constexpr (nested_graph<Graph>)
      for (auto v : captures(g, n)) depend_on_value(v);
    if constexpr (effectful_graph<Graph>)
      for (auto m : g.after(n))
        if (auto const at = position.find(m); at != none<std::size_t>) t.predecessors.add(at);
    t.predecessors.close();
  }
  t.successors = transposed(t.predecessors);
  return t;
}

/// Returns positions in topological order. Of the nodes that are ready, the smallest comes first (Kahn, CACM
/// 5(11), 1962). If there is a cycle, the order is shorter than the table. O((V + E) log V).
inline std::vector<std::size_t> ready_order(dependency_table const& t) {
  std::vector<std::size_t> missing(t.predecessors.rows()), order;
  std::vector<std::size_t> ready;  // a heap, the smallest on top
  auto const arrive = [&](std::size_t n) {
    ready.push_back(n);
    std::push_heap(ready.begin(), ready.end(), std::ranges::greater());
  };
  for (std::size_t n = 0; n < missing.size(); ++n) {
    missing[n] = t.predecessors[n].size();
    if (missing[n] == 0) arrive(n);
  }
  while (!ready.empty()) {
    std::pop_heap(ready.begin(), ready.end(), std::ranges::greater());
    auto const n = ready.back();
    ready.pop_back();
    order.push_back(n);
    for (auto const user : t.successors[n])
      if (--missing[user] == 0) arrive(user);
  }
  return order;
}

/// Returns a cycle among the positions that `ready_order` left out. It is the shortest through the first node
/// that a walk back along predecessors visits twice. O(V + E). Precondition: `order` leaves positions out.
inline std::vector<std::size_t> cycle_outside(dependency_table const& t,
                                              std::vector<std::size_t> const& order) {
  auto const nodes = t.predecessors.rows();
  auto const stuck = unordered_nodes(nodes, order);
  auto const is_stuck = [&](std::size_t n) { return stuck[n] != 0; };
  auto const stuck_predecessor = [&](std::size_t n) {
    return *std::find_if(t.predecessors[n].begin(), t.predecessors[n].end(), is_stuck);
  };
  auto const users = [&](std::size_t n) { return t.successors[n]; };
  return cycle_search(nodes, users)
      .through(first_met_again(nodes, first_unordered<std::size_t>(stuck), stuck_predecessor), is_stuck);
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a cycle of `g`, or nothing. Each node is a predecessor of the next, and the last of the first.
/// O((V + E) log V).
template <dataflow_graph Graph>
std::optional<std::vector<node_t<Graph>>> find_cycle(Graph const& g) {
  auto const t = detail::dependency_table::of(g);
  auto const order = detail::ready_order(t);
  if (order.size() == t.predecessors.rows()) return std::nullopt;
  std::vector<node_t<Graph>> nodes, cycle;
  for (auto n : g.nodes()) nodes.push_back(n);
  for (auto const at : detail::cycle_outside(t, order)) cycle.push_back(nodes[at]);
  return cycle;
}

/// Returns the nodes of `g` in topological order. Of the nodes that are ready, the first in `nodes()` comes
/// first. O((V + E) log V).
/// \throws cycle_error with the cycle; the message leaves out the middle of a long one
template <dataflow_graph Graph>
std::vector<node_t<Graph>> topological_order(Graph const& g) {
  auto const t = detail::dependency_table::of(g);
  auto const order = detail::ready_order(t);
  std::vector<node_t<Graph>> nodes, sorted;
  for (auto n : g.nodes()) nodes.push_back(n);
  if (order.size() < nodes.size()) {
    auto const cycle = detail::cycle_outside(t, order);
    std::vector<node_t<Graph>> witness;
    for (auto const at : cycle) witness.push_back(nodes[at]);
    std::string path;
    std::size_t const shown = 8;  // nodes shown at each end of a long cycle
    for (std::size_t i = 0; i < cycle.size(); ++i)
      if (i < shown || i + shown >= cycle.size())
        path += label(g, witness[i], cycle[i]) + " -> ";
      else if (i == shown)
        path += "… " + std::to_string(cycle.size() - 2 * shown) + " more … -> ";
    path += label(g, witness.front(), cycle.front());
    detail::raise(cycle_error<node_t<Graph>>("the graph has a cycle: " + path, std::move(witness)));
  }
  for (auto const at : order) sorted.push_back(nodes[at]);
  return sorted;
}

template <detail::unfinished_graph Graph>
detail::refused find_cycle(Graph const&) {
  detail::refuse_graph<Graph>();
}

template <detail::unfinished_graph Graph>
detail::refused topological_order(Graph const&) {
  detail::refuse_graph<Graph>();
}

/// Returns `roots` and all nodes on which they depend, producers first. Use it for IRs that have no node list
/// and only record where a value came from. `operands(n)` returns a range of nodes and is called once per
/// node. If there is a cycle, the order has a backward edge, and `find_cycle` reports the cycle. O(V + E),
/// without recursion.
template <handle Node, class Operands>
std::vector<Node> producers_first(std::vector<Node> const& roots, Operands operands) {
  struct frame {
    Node node;
    std::vector<Node> rest;  // operands still to visit, the next one last
  };
  std::vector<Node> order;
  numbering<Node, std::size_t> seen;
  std::vector<frame> path;
  auto const enter = [&](Node const& n) {
    if (auto const before = seen.size(); seen.insert(n) != before) return;
    frame f{n, {}};
    for (auto m : operands(n)) f.rest.push_back(m);
    std::reverse(f.rest.begin(), f.rest.end());
    path.push_back(std::move(f));
  };
  for (auto const& r : roots) {
    enter(r);
    while (!path.empty()) {
      if (path.back().rest.empty()) {
        order.push_back(path.back().node);
        path.pop_back();
      } else {
        Node const next = path.back().rest.back();
        path.back().rest.pop_back();
        enter(next);
      }
    }
  }
  return order;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the node in the result of `producer(v)`: the pointer itself, or the content of the optional.
template <class Found>
auto found_node(Found const& found) {
  if constexpr (std::is_pointer_v<Found>)
    return found;
  else
    return *found;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns all nodes on which `values` depend, producers first. Use it for IRs whose nodes read values, and
/// whose values know the nodes that make them.
///
/// `producer(v)` returns the node that makes `v` as a pointer or a `std::optional`: null or empty if no node
/// does. `operands(n)` returns the values that `n` reads, and is called once per node. O(V + E), without
/// recursion.
template <std::ranges::input_range Values, class Producer, class Operands>
auto producers_first(Values&& values, Producer producer, Operands operands) {
  using value = std::ranges::range_value_t<Values>;
  using node = decltype(detail::found_node(producer(std::declval<value const&>())));
  auto const producers_of = [&](auto&& list) {
    std::vector<node> nodes;
    for (auto const& v : list)
      if (auto const found = producer(v)) nodes.push_back(detail::found_node(found));
    return nodes;
  };
  return producers_first(producers_of(values), [&](node const& n) { return producers_of(operands(n)); });
}
}  // namespace cleave
