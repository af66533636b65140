// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/gain_bucket_lists.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"

namespace cleave::inline v0_2 {

/// Rules that select the next node of a growing part.
enum class growing_rule : std::uint8_t {
  breadth_first,  ///< the node that was reached first; Farhat, Computers & Structures 28, 1988
  greedy          ///< the node with the largest gain; Karypis and Kumar, SIAM J. Sci. Comput. 20, 1998 (GGGP)
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Graph growing: builds one part after another from the remaining nodes. The last part is the rest.
class part_growing {
 public:
  part_growing(integral_graph const& g, part_targets const& t, growing_rule rule)
      : g_(g), t_(t), rule_(rule), part_(g.nodes(), no_node), reached_(part_), key_(g.nodes()) {
    left_ = g.nodes();
    weight_left_ = g.total();
  }

  std::vector<std::uint32_t> run(std::uint64_t seed) {
    double targets = 0;
    for (auto const t : t_.target) targets += static_cast<double>(t);
    auto start = left_ > 0 ? peripheral(static_cast<std::uint32_t>(splitmix(seed).below(left_))) : no_node;
    for (std::uint32_t p = 0; p + 1 < t_.parts(); ++p) {
      auto const own = static_cast<double>(t_.target[p]);
      start = grow(p, start, targets > 0 ? static_cast<double>(weight_left_) * (own / targets) : 0);
      targets -= own;
    }
    std::ranges::replace(part_, no_node, t_.parts() - 1);
    return std::move(part_);
  }

 private:
  // Grows part `p` from node `n` to a weight as close to `wanted` as whole nodes allow, within the limit.
  // Takes at least one node and leaves one for each later part. Returns the start node of the next part.
  std::uint32_t grow(std::uint32_t p, std::uint32_t n, double wanted) {
    std::int64_t weight = 0;
    edge_.clear();
    unseen_ = 0;
    for (auto const parts_to_come = t_.parts() - 1 - p; left_ > parts_to_come; n = next_node(p)) {
      if (n == no_node) break;
      auto const w = g_.node_weight[n];
      if (weight > 0 && static_cast<double>(weight) + static_cast<double>(w) / 2 > wanted) {
        edge_.push_back({0, no_node - n});
        break;
      }
      reached_[n] = p;
      if (weight > 0 && weight + w > t_.most[p]) continue;
      part_[n] = p;
      weight += w;
      weight_left_ -= w;
      --left_;
      g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t edge) {
        if (part_[to] == no_node) reach(to, edge, p);
      });
    }
    return most_enclosed();
  }

  void reach(std::uint32_t n, std::int64_t edge, std::uint32_t p) {
    bool const again = std::exchange(reached_[n], p) == p;
    if (rule_ == growing_rule::breadth_first) {
      if (again) return;
      key_[n] = -static_cast<std::int64_t>(edge_.size() + ++sequence_);
    } else if (again) {
      key_[n] += 2 * edge;
    } else {
      key_[n] = 0;
      g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t w) {
        if (part_[to] == p) key_[n] += w;
        if (part_[to] == no_node) key_[n] -= w;
      });
    }
    edge_.push_back({key_[n], no_node - n});
    std::ranges::push_heap(edge_);
  }

  // Returns the next node of the queue; if the queue is empty, the first remaining node.
  std::uint32_t next_node(std::uint32_t p) {
    while (!edge_.empty()) {
      std::ranges::pop_heap(edge_);
      auto const [key, n] = std::pair(edge_.back().first, no_node - edge_.back().second);
      edge_.pop_back();
      if (part_[n] == no_node && key_[n] == key) return n;
    }
    while (unseen_ < g_.nodes() && (part_[unseen_] != no_node || reached_[unseen_] == p)) ++unseen_;
    return unseen_ < g_.nodes() ? static_cast<std::uint32_t>(unseen_) : no_node;
  }

  // Returns the frontier node with the fewest remaining neighbours.
  std::uint32_t most_enclosed() {
    std::pair best{g_.nodes() + 1, no_node};
    for (auto const& [key, n_key] : edge_) {
      auto const n = no_node - n_key;
      if (part_[n] != no_node) continue;
      std::size_t free = 0;
      g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t) { free += part_[to] == no_node; });
      best = (std::min)(best, {free, n});
    }
    if (best.second == no_node)
      best.second = static_cast<std::uint32_t>(std::ranges::find(part_, no_node) - part_.begin());
    return best.second < g_.nodes() ? best.second : no_node;
  }

  // Returns a pseudo-peripheral node by two breadth-first searches; George and Liu, ACM TOMS 5, 1979.
  std::uint32_t peripheral(std::uint32_t n) const {
    for (int sweep = 0; sweep < 2; ++sweep) {
      std::vector<std::uint32_t> queue{n};
      std::vector<char> met(g_.nodes());
      met[n] = 1;
      for (std::size_t i = 0; i < queue.size(); ++i)
        g_.each_neighbour(queue[i], [&](std::uint32_t to, std::int64_t) {
          if (std::exchange(met[to], char{1}) == 0) queue.push_back(to);
        });
      n = queue.back();
    }
    return n;
  }

  integral_graph const& g_;
  part_targets const& t_;
  growing_rule rule_;
  std::vector<std::uint32_t> part_, reached_;  // per node: its part, and the part that reached it last
  std::vector<std::int64_t> key_;              // per node that was reached: its priority, largest first
  std::vector<std::pair<std::int64_t, std::uint32_t>>
      edge_;  // heap of frontier nodes by priority; stale entries are skipped
  std::size_t left_ = 0, unseen_ = 0, sequence_ = 0;
  std::int64_t weight_left_ = 0;
};
}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `partition_by_growing`.
struct growing_options {
  growing_rule rule = growing_rule::greedy;
  share_options weights{};
  std::uint64_t seed = 1;  ///< selects the start node of the first part
};

/// Partitions a graph into k parts by graph growing. Each part but the last grows from one node to its share
/// of the weight that remained when it started. Only the last part may exceed its limit, unless a single node
/// does. No part is empty if there are at least k nodes. O((n + m) log n) time and O(n + m) memory.
/// \throws error if `k` is 0 or an option is invalid, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition partition_by_growing(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                        std::uint32_t k, growing_options const& o = {}) {
  auto const copy = detail::integral_graph_of(g);
  auto const targets = detail::targets_of(copy.total(), k, o.weights);
  return measured(g, partition_of(detail::part_growing(copy, targets, o.rule).run(o.seed), k));
}

}  // namespace cleave
