// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/fiduccia_mattheyses.hpp"
#include "cleave/partition/classic/growing.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "cleave/partition/classic/part_targets.hpp"

namespace cleave::inline v0_2::detail {

/// A function that returns the side of each node, given a graph and the target and maximum weights of both
/// sides.
template <class T>
concept bisector =
    requires(T const& t, integral_graph const& g, part_targets const& two, std::uint64_t seed) {
      { t(g, two, seed) } -> std::same_as<node_sides>;
    };

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A bisector: grows one side greedily from several start nodes, refines each result by FM moves, and keeps
/// the best.
struct grow_and_move {
  std::size_t tries = 4, passes = 10;

  detail::node_sides operator()(detail::integral_graph const& g, detail::part_targets const& two,
                                std::uint64_t seed) const {
    std::pair best{std::pair(INT64_MAX, INT64_MAX), detail::node_sides{}};
    for (std::size_t i = 0; i < tries; ++i) {
      auto const grown = detail::part_growing(g, two, growing_rule::greedy).run(seed + i);
      detail::node_sides side(grown.begin(), grown.end());
      detail::fm_walk(g, two.most, {}).run(side, passes);
      std::array<std::int64_t, 2> weight{};
      for (std::size_t n = 0; n < side.size(); ++n) weight[side[n]] += g.node_weight[n];
      std::pair const standing(detail::overload(weight, two.most), detail::cut_weight(g, side));
      if (standing < best.first) best = {standing, std::move(side)};
    }
    return std::move(best.second);
  }
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Recursive bisection with an explicit stack of pieces that are still to be divided.
template <bisector Bisector>
class recursive_bisection {
 public:
  recursive_bisection(integral_graph const& g, part_targets const& t, Bisector const& bisect)
      : g_(g), t_(t), bisect_(bisect), part_(g.nodes()), number_(g.nodes()) {}

  std::vector<std::uint32_t> run(std::uint64_t seed) {
    std::vector<piece> open{{std::vector<std::uint32_t>(g_.nodes()), 0, t_.parts()}};
    std::iota(open[0].nodes.begin(), open[0].nodes.end(), 0u);
    while (!open.empty()) {
      auto const p = std::move(open.back());
      open.pop_back();
      if (p.parts > 1 && p.nodes.size() > p.parts) {
        auto halves = divided(p, seed);
        for (auto& half : halves) open.push_back(std::move(half));
      } else {
        for (std::uint32_t i = 0; i < p.nodes.size(); ++i)
          part_[p.nodes[i]] = p.first + (p.parts > 1 ? i : 0);
      }
    }
    return std::move(part_);
  }

 private:
  struct piece {
    std::vector<std::uint32_t> nodes;
    std::uint32_t first, parts;  // the range of parts to be made of these nodes
  };

  std::array<piece, 2> divided(piece const& p, std::uint64_t seed) {
    std::array<piece, 2> halves{piece{{}, p.first, p.parts / 2},
                                piece{{}, p.first + p.parts / 2, p.parts - p.parts / 2}};
    auto const inside = subgraph(g_, p.nodes, number_);
    auto const two = targets_of_halves(halves, inside.total());
    auto const side = bisect_(inside, two, seed);
    for (std::size_t i = 0; i < p.nodes.size(); ++i) halves[side[i]].nodes.push_back(p.nodes[i]);
    for (std::size_t s : {0u, 1u}) lend_nodes(halves[1 - s].nodes, halves[s]);
    return halves;
  }

  // Returns the targets of the two sides. A side gets an equal fraction of the slack of all its parts: the
  // same factor for each remaining level of bisection.
  part_targets targets_of_halves(std::array<piece, 2> const& halves, std::int64_t total) const {
    std::array<double, 2> share{}, most{};
    for (std::size_t s : {0u, 1u})
      for (auto p = halves[s].first; p < halves[s].first + halves[s].parts; ++p) {
        share[s] += static_cast<double>(t_.target[p]);
        most[s] += static_cast<double>(t_.most[p]);
      }
    auto const depth = std::bit_width(halves[1].parts - 1) + 1;
    part_targets two;
    for (std::size_t s : {0u, 1u}) {
      auto const own =
          share[0] + share[1] > 0 ? static_cast<double>(total) * (share[s] / (share[0] + share[1])) : 0;
      auto const target = whole_up_to(own, total);
      auto const slack = whole_up_to((std::max)((most[s] - own) / depth, 0.0), total - target);
      auto const rounded_up = target + (own > static_cast<double>(target) && target < total ? 1 : 0);
      two.target.push_back(target);
      two.most.push_back(halves[s].parts == 1 ? t_.most[halves[s].first]
                                              : (std::max)(target + slack, rounded_up));
    }
    return two;
  }

  // Moves the lightest nodes of `from` to `to` until it has as many nodes as parts, so that no part is empty.
  void lend_nodes(std::vector<std::uint32_t>& from, piece& to) const {
    if (to.nodes.size() >= to.parts) return;
    std::ranges::sort(from, {}, [&](std::uint32_t n) { return std::pair(-g_.node_weight[n], n); });
    for (; to.nodes.size() < to.parts; from.pop_back()) to.nodes.push_back(from.back());
  }

  integral_graph const& g_;
  part_targets const& t_;
  Bisector const& bisect_;
  std::vector<std::uint32_t> part_, number_;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Options of recursive bisection.
struct bisection_options {
  share_options weights{};
  std::uint64_t seed = 1;
};

/// Partitions a graph into k parts, for any k, by recursive bisection. The target of a side is the sum of the
/// shares of its parts. Simon and Teng, How good is recursive bisection?, SIAM J. Sci. Comput. 18, 1997.
/// Parts respect their limits if the bisector respects those that it is given. No part is empty if there are
/// at least k nodes. O((n + m) log k), plus the time of the bisector.
/// \throws error if `k` is 0 or an option is invalid, adjacency_error.
template <std::integral Index, weight_number NodeWeight, weight_number EdgeWeight, std::integral Offset,
          detail::bisector Bisector = grow_and_move>
measured_partition partition_by_bisection(adjacency_view<Index, NodeWeight, EdgeWeight, Offset> g,
                                          std::uint32_t k, Bisector const& bisect = {},
                                          bisection_options const& o = {}) {
  auto const copy = detail::integral_graph_of(g);
  auto const targets = detail::targets_of(copy.total(), k, o.weights);
  return measured(g, partition_of(detail::recursive_bisection(copy, targets, bisect).run(o.seed), k));
}

}  // namespace cleave
