// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/exact/detail/step_limit.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// Options of `min_k_cut`.
struct min_cut_options {
  double imbalance = 0.03;                  ///< how far a part may exceed ceil(total / k): 0.03 is 3 %
  std::size_t most_steps = 10'000'000'000;  ///< about 100 million a second; gives the same result on every
                                            ///< machine
  double seconds = std::numeric_limits<double>::infinity();  ///< time limit; the result may depend on the
                                                             ///< machine
};

/// A partition with the smallest cut, or the best one found within the limits.
template <weight_number EdgeWeight>
struct min_cut_partition : partition {
  /// Weight of the edges between parts.
  weight_total<EdgeWeight> cut = 0;
  weight_total<EdgeWeight> bound = 0;  ///< a lower bound on every cut
  bool proved = false;                 ///< true if the cut is optimal
  std::size_t steps = 0;               ///< steps that the search took
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Branch and bound over the part of one node after the other. Helper of `min_k_cut`.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
class cut_branching {
 public:
  using result = min_cut_partition<EdgeWeight>;
  using node_total = weight_total<NodeWeight>;
  using edge_total = weight_total<EdgeWeight>;

  cut_branching(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g, std::uint32_t k, node_total most)
      : g_(g),
        k_(k),
        most_(most),
        part_(g.nodes(), k),
        weight_(k),
        count_(k),
        empty_(k),
        to_(g.nodes() * k),
        met_(g.nodes()) {
    put_in_order();
  }

  result run(step_limit steps) {
    result best;
    best.parts = k_;
    bool found = false;
    std::vector<choice> path(g_.nodes() + 1);
    path[0] = open_choice(0);
    auto const n = g_.nodes();
    for (std::size_t depth = 0;;) {
      auto& at = path[depth];
      if (depth == n) {
        if (!found || cut_ < best.cut) {
          found = true;
          best.cut = cut_;
          best.of.clear();
          for (auto const p : part_) best.of.push_back(part_id{p});
        }
      } else if (!(found && at.bound >= best.cut) && at.next < at.parts.size()) {
        if (!steps.spend(1 + g_.neighbours(order_[depth]).size() + (n - depth) * k_)) {
          best.bound = found ? best.cut : (std::numeric_limits<edge_total>::max)();
          for (std::size_t d = 0; d <= depth; ++d)
            if (path[d].next < path[d].parts.size()) best.bound = (std::min)(best.bound, path[d].bound);
          best.steps = steps.spent();
          return best;
        }
        put(order_[depth], at.parts[at.next++]);
        path[depth + 1] = open_choice(depth + 1);
        ++depth;
        continue;
      }
      if (depth == 0) break;
      take_back(order_[--depth]);
    }
    best.bound = best.cut;
    best.proved = true;
    best.steps = steps.spent();
    return best;
  }

 private:
  struct choice {
    std::vector<std::uint32_t> parts;  // in ascending order of the increase of the cut
    std::size_t next = 0;
    edge_total bound = 0;
  };

  /// Orders the nodes: next comes the node most connected to those before it.
  void put_in_order() {
    std::vector<edge_total> tie(g_.nodes());
    while (order_.size() < g_.nodes()) {
      std::size_t best = g_.nodes();
      for (std::size_t u = 0; u < g_.nodes(); ++u)
        if (!met_[u] && (best == g_.nodes() || tie[u] > tie[best])) best = u;
      met_[best] = 1;
      order_.push_back(best);
      each_edge(best, [&](std::size_t v, edge_total w) { tie[v] += w; });
    }
  }
  template <class F>
  void each_edge(std::size_t u, F f) const {
    auto const begin = static_cast<std::size_t>(g_.offsets[u]);
    auto const row = g_.neighbours(u);
    for (std::size_t i = 0; i < row.size(); ++i)
      if (static_cast<std::size_t>(row[i]) != u)
        f(static_cast<std::size_t>(row[i]), static_cast<edge_total>(g_.weight_of_edge(begin + i)));
  }

  void put(std::size_t u, std::uint32_t p) {
    for (std::uint32_t q = 0; q < k_; ++q)
      if (q != p) cut_ += to_[u * k_ + q];
    part_[u] = p;
    weight_[p] += static_cast<node_total>(g_.weight(u));
    empty_ -= count_[p]++ == 0;
    each_edge(u, [&](std::size_t v, edge_total w) { to_[v * k_ + p] += w; });
  }
  void take_back(std::size_t u) {
    auto const p = part_[u];
    each_edge(u, [&](std::size_t v, edge_total w) { to_[v * k_ + p] -= w; });
    empty_ += --count_[p] == 0;
    weight_[p] -= static_cast<node_total>(g_.weight(u));
    part_[u] = k_;
    for (std::uint32_t q = 0; q < k_; ++q)
      if (q != p) cut_ -= to_[u * k_ + q];
  }

  bool has_room(std::size_t u, std::uint32_t p) const {
    return weight_[p] + static_cast<node_total>(g_.weight(u)) <= most_;
  }

  /// Returns the parts open to the next node, and a lower bound on the cut. Each later node pays at least for
  /// the edges that its best part leaves cut.
  choice open_choice(std::size_t depth) const {
    choice made;
    made.bound = cut_;
    for (std::size_t i = depth; i < order_.size(); ++i) {
      auto const* to = &to_[order_[i] * k_];
      edge_total all = 0, most = -1;
      for (std::uint32_t p = 0; p < k_; ++p) {
        all += to[p];
        if (has_room(order_[i], p)) most = (std::max)(most, to[p]);
      }
      if (most < 0) return made;  // no part has room for it
      made.bound += all - most;
    }
    if (depth == order_.size()) return made;
    auto const u = order_[depth];
    bool const must_open = order_.size() - depth <= empty_;  // each remaining node is needed by an empty part
    bool opened = false;
    for (std::uint32_t p = 0; p < k_; ++p) {
      if (!has_room(u, p) || (must_open && count_[p] != 0)) continue;
      if (count_[p] == 0 && std::exchange(opened, true)) continue;  // empty parts are equivalent
      made.parts.push_back(p);
    }
    auto const key = [&](std::uint32_t p) { return std::pair(-to_[u * k_ + p], p); };
    std::ranges::sort(made.parts, {}, key);
    return made;
  }

  adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g_;
  std::uint32_t k_;
  node_total most_;
  std::vector<std::uint32_t> part_;  // of each node; k if it has no part
  std::vector<node_total> weight_;   // of each part
  std::vector<std::size_t> count_;   // of each part: number of nodes
  std::size_t empty_;                // parts without nodes
  edge_total cut_ = 0;
  std::vector<edge_total> to_;  // of each node and part: weight of the edges between them
  std::vector<char> met_;
  std::vector<std::size_t> order_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Partitions a small graph into k parts with the smallest cut by branch and bound. It serves as a reference
/// for other partitioners.
///
/// No part weighs more than (1 + imbalance) ceil(total / k), or more than the heaviest node if that is
/// larger. No part is empty if there are at least k nodes. The running time is exponential; it is practical
/// for 20 to 40 nodes.
///
/// \param g  the graph in CSR form
/// \param k  number of parts
/// \param o  imbalance and search limits
/// \throws adjacency_error if the arrays are not a valid undirected graph.
/// \throws error if `k` is 0 or the imbalance is negative or NaN.
/// \throws infeasible_error if no such parts exist, or none were found within the limits.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
min_cut_partition<EdgeWeight> min_k_cut(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                        std::uint32_t k, min_cut_options const& o = {}) {
  check_adjacency(g);
  if (k == 0) throw error("min_k_cut: 0 parts are requested: expected at least 1");
  if (!(o.imbalance >= 0))
    throw error("min_k_cut: the imbalance is " + std::to_string(o.imbalance) +
                ": expected a number of at least 0");
  using total = weight_total<NodeWeight>;
  total all = 0, heaviest = 0;
  for (std::size_t u = 0; u < g.nodes(); ++u) {
    all += static_cast<total>(g.weight(u));
    heaviest = (std::max)(heaviest, static_cast<total>(g.weight(u)));
  }
  double share = static_cast<double>(all) / k;
  if constexpr (std::integral<total>) share = static_cast<double>(all / k + (all % k != 0));
  double const limit = (std::min)((1 + o.imbalance) * share, 0x1p62);
  auto const most = (std::max)(heaviest, static_cast<total>(limit));
  auto const found =
      detail::cut_branching<Index, NodeWeight, EdgeWeight, Offset>(g, k, most).run({o.most_steps, o.seconds});
  if (found.of.size() < g.nodes())
    throw infeasible_error(
        (found.proved ? "there is no partition into "
                      : "in " + std::to_string(found.steps) + " steps, the search found no partition into ") +
        std::to_string(k) + " parts of weight at most " + std::to_string(most) + ": allow more imbalance");
  return found;
}

}  // namespace cleave
