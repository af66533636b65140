// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/gain_bucket_lists.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"

namespace cleave::inline v0_2::detail {

/// The side of each node in a bisection, 0 or 1.
using node_sides = std::vector<std::uint8_t>;

/// Fiduccia-Mattheyses refinement of a bisection. A pass moves each node at most once and keeps the best
/// prefix of its moves.
class fm_walk {
 public:
  /// `fixed` is nonzero for nodes that must not move; empty: all may move.
  fm_walk(integral_graph const& g, std::span<std::int64_t const> most, std::span<std::uint8_t const> fixed)
      : g_(g), most_{most[0], most[1]}, fixed_(fixed), gain_(g.nodes()) {
    std::int64_t largest = 0;
    for (std::uint32_t n = 0; n < g.nodes(); ++n) {
      std::int64_t sum = 0;
      g.each_neighbour(n, [&](std::uint32_t, std::int64_t w) { sum += w; });
      largest = (std::max)(largest, sum);
    }
    lists_ = {gain_bucket_lists(g.nodes(), largest), gain_bucket_lists(g.nodes(), largest)};
  }

  /// Runs at most `passes` passes and stops after the first that does not help.
  void run(node_sides& side, std::size_t passes) {
    side_ = std::move(side);
    weight_ = {};
    count_ = {};
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      weight_[side_[n]] += g_.node_weight[n];
      ++count_[side_[n]];
    }
    while (passes-- > 0 && pass()) {
    }
    side = std::move(side_);
  }

 private:
  struct standing {
    std::int64_t overload, lost;  // lost: increase of the cut
    auto operator<=>(standing const&) const = default;
  };

  bool pass() {
    for (auto& l : lists_) l.clear();
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      gain_[n] = 0;
      g_.each_neighbour(
          n, [&](std::uint32_t to, std::int64_t w) { gain_[n] += side_[to] != side_[n] ? w : -w; });
      if (fixed_.empty() || fixed_[n] == 0) lists_[side_[n]].insert(n, gain_[n]);
    }
    standing now{overload(weight_, most_), 0};
    auto const start = now;
    auto best = now;
    std::vector<std::uint32_t> moved;
    std::size_t kept = 0;
    for (auto n = next_node(); n != no_node; n = next_node()) {
      now.lost -= gain_[n];
      lists_[side_[n]].erase(n);
      move(n);
      moved.push_back(n);
      now.overload = overload(weight_, most_);
      if (now < best) best = now, kept = moved.size();
    }
    while (moved.size() > kept) {
      put_over(moved.back());
      moved.pop_back();
    }
    return best < start;
  }

  // Returns the better of both sides' best movable nodes. On ties the node of the fuller side wins.
  std::uint32_t next_node() {
    constexpr std::size_t tries = 16;
    std::array<std::uint32_t, 2> found;
    for (std::size_t s : {0u, 1u})
      found[s] = lists_[s].first_accepted(tries, [&](std::uint32_t n) { return may_go(n, s); });
    if (found[0] == no_node || found[1] == no_node) return found[0] == no_node ? found[1] : found[0];
    if (gain_[found[0]] != gain_[found[1]]) return found[gain_[found[0]] < gain_[found[1]]];
    return found[most_[1] - weight_[1] < most_[0] - weight_[0]];
  }

  bool may_go(std::uint32_t n, std::size_t from) const {
    auto const w = g_.node_weight[n];
    if (count_[from] == 1) return false;
    auto const over = std::max<std::int64_t>(weight_[1 - from] + w - most_[1 - from], 0);
    return over == 0 || over < weight_[from] - most_[from];
  }

  void put_over(std::uint32_t n) {
    auto const from = side_[n];
    side_[n] = 1 - from;
    weight_[from] -= g_.node_weight[n];
    weight_[1 - from] += g_.node_weight[n];
    --count_[from];
    ++count_[1 - from];
  }

  void move(std::uint32_t n) {
    put_over(n);
    g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t w) {
      auto& list = lists_[side_[to]];
      gain_[to] += side_[to] == side_[n] ? -2 * w : 2 * w;
      if (!list.has(to)) return;
      list.erase(to);
      list.insert(to, gain_[to]);
    });
  }

  integral_graph const& g_;
  std::array<std::int64_t, 2> most_, weight_{};
  std::array<std::size_t, 2> count_{};
  std::span<std::uint8_t const> fixed_;
  node_sides side_;
  std::vector<std::int64_t> gain_;
  std::array<gain_bucket_lists, 2> lists_{gain_bucket_lists(0, 0),
                                          gain_bucket_lists(0, 0)};  // of nodes not yet moved in this pass
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `fiduccia_mattheyses`.
struct fm_options {
  share_options weights{};
  std::vector<std::uint8_t> fixed{};  ///< nonzero for each node that must stay; empty: all may move
  std::size_t passes = 10;            ///< at most; stops after the first pass that does not help
};

/// Refines a bisection by moves of single nodes: Fiduccia and Mattheyses, A linear-time heuristic for
/// improving network partitions, DAC 1982. The cut never grows unless a part of `start` exceeds its limit.
/// Overweight is reduced first, to the extent that single moves can. No part becomes empty. Moves respect
/// weights and limits, but a search for a node that fits examines only the first few by gain. O(m) per pass.
/// \throws error if `start` or the options do not fit the graph, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition fiduccia_mattheyses(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                       partition const& start, fm_options const& o = {}) {
  auto const copy = detail::integral_graph_of(g);
  detail::check_start(start, copy.nodes());
  if (start.parts != 2)
    throw error("fiduccia_mattheyses needs a partition with 2 parts; this one has " +
                std::to_string(start.parts));
  if (!o.fixed.empty() && o.fixed.size() != copy.nodes())
    throw error("fixed nodes: give one entry for each of the " + std::to_string(copy.nodes()) +
                " nodes, or none");
  auto const targets = detail::targets_of(copy.total(), 2, o.weights);
  detail::node_sides side(copy.nodes());
  for (std::size_t n = 0; n < side.size(); ++n) side[n] = static_cast<std::uint8_t>(index(start.of[n]));
  detail::fm_walk(copy, targets.most, o.fixed).run(side, o.passes);
  return measured(g, partition_of({side.begin(), side.end()}, 2));
}

}  // namespace cleave
