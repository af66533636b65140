// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"

namespace cleave::inline v0_2::detail {

/// Kernighan-Lin refinement of a bisection. A pass swaps each node at most once and keeps the best prefix of
/// its swaps.
class kl_walk {
 public:
  kl_walk(integral_graph const& g, std::span<std::int64_t const> most)
      : g_(g), most_{most[0], most[1]}, gain_(g.nodes()), edge_(g.nodes()), swapped_(g.nodes()) {}

  void run(node_sides& side, std::size_t passes) {
    weight_ = {};
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) weight_[side[n]] += g_.node_weight[n];
    while (passes-- > 0 && pass(side)) {
    }
  }

 private:
  struct pair_of_nodes {
    std::uint32_t a = 0, b = 0;
    std::int64_t gain = (std::numeric_limits<std::int64_t>::min)();
  };

  bool pass(node_sides& side) {
    std::array<std::vector<std::uint32_t>, 2> open;
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      gain_[n] = 0;
      swapped_[n] = 0;
      g_.each_neighbour(n,
                        [&](std::uint32_t to, std::int64_t w) { gain_[n] += side[to] != side[n] ? w : -w; });
      open[side[n]].push_back(n);
    }
    std::vector<pair_of_nodes> swaps;
    std::size_t kept = 0;
    std::int64_t now = 0, best = 0;
    while (!open[0].empty() && !open[1].empty()) {
      auto const found = best_pair(open);
      if (found.gain == (std::numeric_limits<std::int64_t>::min)()) break;
      swap(found, side, open);
      swaps.push_back(found);
      now += found.gain;
      if (now > best) best = now, kept = swaps.size();
    }
    for (; swaps.size() > kept; swaps.pop_back()) exchange(swaps.back(), side);
    return best > 0;
  }

  // Returns the pair with the largest swap gain. Scans by decreasing gain and stops when no better pair can
  // follow.
  pair_of_nodes best_pair(std::array<std::vector<std::uint32_t>, 2>& open) {
    for (auto& nodes : open)
      std::ranges::sort(nodes, {}, [&](std::uint32_t n) { return std::pair(-gain_[n], n); });
    pair_of_nodes best;
    for (auto const a : open[0]) {
      if (gain_[a] + gain_[open[1].front()] <= best.gain) break;
      g_.each_neighbour(a, [&](std::uint32_t to, std::int64_t w) { edge_[to] += w; });
      for (auto const b : open[1]) {
        if (gain_[a] + gain_[b] <= best.gain) break;
        auto const gain = gain_[a] + gain_[b] - 2 * edge_[b];
        if (gain > best.gain && fits(a, b)) best = {a, b, gain};
      }
      g_.each_neighbour(a, [&](std::uint32_t to, std::int64_t) { edge_[to] = 0; });
    }
    return best;
  }

  // Returns true if the swap makes no side overweight, or heavier than it is if it already is.
  bool fits(std::uint32_t a, std::uint32_t b) const {
    auto const more = g_.node_weight[a] - g_.node_weight[b];  // on the side of b
    return (more <= 0 || weight_[1] + more <= most_[1]) && (more >= 0 || weight_[0] - more <= most_[0]);
  }

  void swap(pair_of_nodes p, node_sides& side, std::array<std::vector<std::uint32_t>, 2>& open) {
    std::erase(open[0], p.a);
    std::erase(open[1], p.b);
    swapped_[p.a] = swapped_[p.b] = 1;
    for (auto const n : {p.a, p.b})
      g_.each_neighbour(n, [&](std::uint32_t to, std::int64_t w) {
        if (swapped_[to] == 0) gain_[to] += side[to] == side[n] ? 2 * w : -2 * w;
      });
    exchange(p, side);
  }

  void exchange(pair_of_nodes p, node_sides& side) {
    auto const more = g_.node_weight[p.a] - g_.node_weight[p.b];
    weight_[side[p.a]] -= more;
    weight_[side[p.b]] += more;
    std::swap(side[p.a], side[p.b]);
  }

  integral_graph const& g_;
  std::array<std::int64_t, 2> most_, weight_{};
  std::vector<std::int64_t> gain_;  // reduction of the cut if the node moves
  std::vector<std::int64_t> edge_;  // weight of the edge to the node that is being paired
  std::vector<char> swapped_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of `kernighan_lin`.
struct kl_options {
  share_options weights{};
  std::size_t passes = 10;  ///< at most; stops after the first pass that does not help
};

/// Refines a bisection by swaps of pairs: Kernighan and Lin, An efficient heuristic procedure for
/// partitioning graphs, Bell System Technical Journal 49, 1970. Parts keep their numbers of nodes. Swaps that
/// would make a part exceed its limit are skipped. The cut never grows. A pass takes O(n^2 log n), or O(n^3)
/// if many edges join the best candidates. Suitable for some ten thousand nodes; use `fiduccia_mattheyses`
/// for larger graphs.
/// \throws error if `start` or the options do not fit the graph, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset>
measured_partition kernighan_lin(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                 partition const& start, kl_options const& o = {}) {
  auto const copy = detail::integral_graph_of(g);
  detail::check_start(start, copy.nodes());
  if (start.parts != 2)
    throw error("kernighan_lin needs a partition with 2 parts; this one has " + std::to_string(start.parts));
  auto const targets = detail::targets_of(copy.total(), 2, o.weights);
  detail::node_sides side(copy.nodes());
  for (std::size_t n = 0; n < side.size(); ++n) side[n] = static_cast<std::uint8_t>(index(start.of[n]));
  detail::kl_walk(copy, targets.most).run(side, o.passes);
  return measured(g, partition_of({side.begin(), side.end()}, 2));
}

}  // namespace cleave
