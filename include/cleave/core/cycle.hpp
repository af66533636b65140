// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

/// Finds cycles in directed graphs. Nodes are numbered from 0; `follow(n)` returns the successors of node n.
namespace cleave::inline v0_2::detail {

/// An edge of a directed graph.
struct directed_arc {
  std::uint32_t from, to;
};

/// The edges of a directed graph in CSR form, grouped by their first node. The edges of a node keep the order
/// in which they were given.
class arc_rows {
 public:
  arc_rows(std::uint32_t nodes, std::span<directed_arc const> arcs)
      : first_(std::size_t{nodes} + 1), number_(arcs.size()), head_(arcs.size()) {
    for (auto const& a : arcs) ++first_[a.from + std::size_t{1}];
    for (std::uint32_t n = 0; n < nodes; ++n) first_[n + std::size_t{1}] += first_[n];
    auto next = first_;
    for (std::uint32_t i = 0; i < arcs.size(); ++i) {
      auto const at = next[arcs[i].from]++;
      number_[at] = i, head_[at] = arcs[i].to;
    }
  }

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(first_.size() - 1); }
  /// Returns the successors of `n`.
  std::span<std::uint32_t const> operator()(std::uint32_t n) const { return row(head_, n); }
  /// Returns the numbers of the edges to these successors, in the same order.
  std::span<std::uint32_t const> numbers(std::uint32_t n) const { return row(number_, n); }

 private:
  std::span<std::uint32_t const> row(std::vector<std::uint32_t> const& of, std::uint32_t n) const {
    return {of.data() + first_[n], of.data() + first_[n + std::size_t{1}]};
  }

  std::vector<std::size_t> first_;
  std::vector<std::uint32_t> number_, head_;
};

/// Returns the nodes in topological order. Nodes on a cycle, and nodes reachable from a cycle, are left out.
/// O(nodes + edges). Kahn, CACM 5(11), 1962.
template <class Node, class Follow>
std::vector<Node> order_of_arcs(Node nodes, Follow const& follow) {
  std::vector<Node> missing(nodes), order;
  for (Node n = 0; n < nodes; ++n)
    for (Node const to : follow(n)) ++missing[to];
  for (Node n = 0; n < nodes; ++n)
    if (missing[n] == 0) order.push_back(n);
  for (std::size_t i = 0; i < order.size(); ++i)
    for (Node const to : follow(order[i]))
      if (--missing[to] == 0) order.push_back(to);
  return order;
}

/// Returns 1 for each of `nodes` nodes that is not in `order`, else 0.
template <class Node>
std::vector<char> unordered_nodes(std::size_t nodes, std::vector<Node> const& order) {
  std::vector<char> left(nodes, 1);
  for (auto const n : order) left[n] = 0;
  return left;
}

/// Returns the first node that is marked as left out. Precondition: there is one.
template <class Node>
Node first_unordered(std::vector<char> const& left) {
  return static_cast<Node>(std::find(left.begin(), left.end(), 1) - left.begin());
}

/// Returns a node on a cycle: the first one that the walk `at`, `next(at)`, … visits twice.
template <class Node, class Next>
Node first_met_again(std::size_t nodes, Node at, Next const& next) {
  std::vector<char> met(nodes);
  while (!std::exchange(met[at], 1)) at = next(at);
  return at;
}

/// Returns a cycle, in the direction of the edges; it need not be short. `order` is a result of
/// `order_of_arcs` that leaves nodes out. Each of these has a predecessor that is left out too, so a walk
/// back along predecessors ends on a cycle. The returned cycle ends with the node that the walk reaches after
/// `nodes` steps. O(nodes + edges).
template <class Arcs>
std::vector<std::uint32_t> some_cycle(std::uint32_t nodes, Arcs const& arcs,
                                      std::vector<std::uint32_t> const& order) {
  auto const left = unordered_nodes(nodes, order);
  std::vector<std::uint32_t> before(nodes);  // of a left-out node: its last left-out predecessor
  for (auto const& [from, to] : arcs)
    if (left[from]) before[to] = from;
  auto at = first_unordered<std::uint32_t>(left);
  for (std::uint32_t step = 0; step < nodes; ++step) at = before[at];
  std::vector<std::uint32_t> cycle{at};
  for (auto n = before[at]; n != at; n = before[n]) cycle.push_back(n);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

/// Finds shortest cycles through given nodes, by breadth-first search.
template <class Node, class Follow>
class cycle_search {
 public:
  cycle_search(Node nodes, Follow const& follow)
      : follow_(follow), seen_in_(nodes), came_from_(nodes), depth_(nodes) {}

  /// Returns the nodes of a shortest cycle that begins at `start` and visits only nodes where `may_pass(n)`
  /// is true. Returns an empty list if every such cycle has `below` edges or more.
  template <class MayPass>
  std::vector<Node> through(Node start, MayPass const& may_pass,
                            std::size_t below = static_cast<std::size_t>(-1)) {
    ++search_;
    queue_.assign(1, start);
    depth_[start] = 0;
    for (std::size_t i = 0; i < queue_.size() && seen_in_[start] != search_; ++i) {
      auto const n = queue_[i];
      if (depth_[n] + std::size_t{1} >= below) break;
      for (Node const to : follow_(n)) {
        ++steps_;
        if (seen_in_[to] == search_ || !may_pass(to)) continue;
        seen_in_[to] = search_, came_from_[to] = n, depth_[to] = depth_[n] + 1;
        queue_.push_back(to);
      }
    }
    std::vector<Node> cycle;
    if (seen_in_[start] != search_) return cycle;
    cycle.push_back(start);
    for (auto n = came_from_[start]; n != start; n = came_from_[n]) cycle.push_back(n);
    std::reverse(cycle.begin() + 1, cycle.end());
    return cycle;
  }

  /// Returns the number of edges that all searches have scanned.
  std::size_t steps() const { return steps_; }

 private:
  Follow const& follow_;
  std::vector<std::size_t> seen_in_;  // of a node: the last search that reached it
  std::vector<Node> came_from_, depth_, queue_;
  std::size_t search_ = 0, steps_ = 0;
};

/// Returns the numbers of the edges of a shortest cycle, in order; an empty list if there is no cycle. The
/// cycle begins at the smallest node that lies on any shortest cycle. Each search stops at the length of the
/// best cycle so far. O(nodes · (nodes + edges)) at most, O(nodes + edges) if some cycle is short.
inline std::vector<std::uint32_t> shortest_cycle(std::uint32_t nodes, std::span<directed_arc const> arcs) {
  arc_rows const rows(nodes, arcs);
  cycle_search search(nodes, rows);
  std::vector<std::uint32_t> best;
  for (std::uint32_t start = 0; start < nodes; ++start) {
    auto const below = best.empty() ? static_cast<std::size_t>(-1) : best.size();
    if (auto cycle = search.through(start, [](std::uint32_t) { return true; }, below); !cycle.empty())
      best = std::move(cycle);
  }
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < best.size(); ++i) {
    auto const to = std::ranges::find(rows(best[i]), best[(i + 1) % best.size()]);
    numbers.push_back(rows.numbers(best[i])[static_cast<std::size_t>(to - rows(best[i]).begin())]);
  }
  return numbers;
}

}  // namespace cleave::detail
