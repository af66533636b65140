// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/separator/detail/edge_bisection.hpp"
#include "cleave/partition/separator/detail/plain_graph.hpp"
#include "cleave/partition/separator/detail/separation.hpp"

namespace cleave::inline v0_2::detail {

/// Effort spent on one separator.
struct separator_config {
  std::uint32_t trials = 4;        ///< separators of the middle level, each from a hierarchy of its own
  std::uint32_t small_trials = 4;  ///< the same for graphs that are not larger than the middle level
  std::uint32_t growths = 4;       ///< separators grown in each coarsest graph
  std::uint32_t passes = 4;        ///< refinement passes per level
  std::uint32_t middle = 2000;     ///< trials begin at the first level with at most this many nodes
  std::uint32_t smallest = 40;     ///< coarsening stops at this many nodes
};

/// A coarser graph, with the cluster of each node of the finer graph.
struct coarser_graph {
  plain_graph graph;
  std::vector<std::uint32_t> cluster_of;
};

/// Pairs each node with the unpaired neighbour to which it is most connected, relative to its weight. Nodes
/// that remain are paired if they have their best neighbour in common. Returns the graph of the pairs.
class pair_contraction {
 public:
  pair_contraction(plain_graph const& g, std::int64_t heaviest, splitmix& random)
      : g_(g), heaviest_(heaviest), mate_(g.nodes(), none) {
    pair_neighbours(random);
    pair_remaining();
  }

  coarser_graph contracted() const {
    coarser_graph next;
    next.cluster_of.resize(g_.nodes());
    std::uint32_t clusters = 0;
    for (std::uint32_t n = 0; n < g_.nodes(); ++n)
      if (mate_[n] >= n) next.cluster_of[n] = next.cluster_of[mate_[n]] = clusters++;
    auto& to = next.graph;
    to.offsets.reserve(clusters + 1);
    to.weight.reserve(clusters);
    to.targets.reserve(g_.targets.size());
    to.count.reserve(g_.targets.size());
    std::vector<std::uint32_t> place(clusters, 0);  // 1 + the position of the last edge to a cluster
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      if (mate_[n] < n) continue;
      auto const own = next.cluster_of[n];
      auto const first = static_cast<std::uint32_t>(to.targets.size());
      add_edges(n, own, first, next, place);
      auto weight = g_.weight[n];
      if (mate_[n] != n) {
        add_edges(mate_[n], own, first, next, place);
        weight += g_.weight[mate_[n]];
      }
      to.weight.push_back(weight);
      to.offsets.push_back(static_cast<std::uint32_t>(to.targets.size()));
    }
    return next;
  }

 private:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Returns the neighbour with the highest rating among those that `may` be chosen.
  template <class May>
  std::uint32_t best_neighbour(std::uint32_t n, May const& may) const {
    auto best = none;
    double most = 0;
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e) {
      auto const other = g_.targets[e];
      if (!may(other)) continue;
      auto const rating = static_cast<double>(g_.edge_count(e)) /
                          static_cast<double>(std::max<std::int64_t>(1, g_.weight[other]));
      if (rating > most) most = rating, best = other;
    }
    return best;
  }

  void pair_neighbours(splitmix& random) {
    std::vector<std::uint32_t> order(g_.nodes());
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) order[n] = n;
    random.shuffle(order);
    for (auto const n : order) {
      if (mate_[n] != none) continue;
      auto const best = best_neighbour(n, [&](std::uint32_t other) {
        return mate_[other] == none && g_.weight[n] + g_.weight[other] <= heaviest_;
      });
      if (best != none) mate_[n] = best, mate_[best] = n;
    }
  }

  void pair_remaining() {
    std::vector<std::uint32_t> waiting(std::size_t{g_.nodes()} + 1,
                                       none);  // by best neighbour; last: isolated
    for (std::uint32_t n = 0; n < g_.nodes(); ++n) {
      if (mate_[n] != none) continue;
      auto const best = best_neighbour(n, [](std::uint32_t) { return true; });
      auto& other = waiting[best == none ? g_.nodes() : best];
      if (other != none && g_.weight[n] + g_.weight[other] <= heaviest_) {
        mate_[n] = other, mate_[other] = n;
        other = none;
      } else {
        mate_[n] = n;
        other = n;
      }
    }
  }

  void add_edges(std::uint32_t n, std::uint32_t own, std::uint32_t first, coarser_graph& next,
                 std::vector<std::uint32_t>& place) const {
    auto& to = next.graph;
    for (auto e = g_.offsets[n]; e < g_.offsets[n + 1]; ++e) {
      auto const cluster = next.cluster_of[g_.targets[e]];
      if (cluster == own) continue;
      if (place[cluster] > first) {
        to.count[place[cluster] - 1] += g_.edge_count(e);
      } else {
        to.targets.push_back(cluster);
        to.count.push_back(g_.edge_count(e));
        place[cluster] = static_cast<std::uint32_t>(to.targets.size());
      }
    }
  }

  plain_graph const& g_;
  std::int64_t heaviest_;
  std::vector<std::uint32_t> mate_;
};

/// Finds vertex separators on several levels: coarsens the graph, grows separators of the coarsest graph, and
/// refines every level on the way back. O((n + m) * trials).
class multilevel_separator {
 public:
  multilevel_separator(plain_graph const& g, std::int64_t limit, separator_config const& config)
      : g_(g), limit_(limit), config_(config), total_(g.total()) {}

  separation best(splitmix& random) const {
    auto const levels = coarsened(g_, config_.middle, random);
    auto const& top = levels.empty() ? g_ : levels.back().graph;
    separation s;
    auto const trials = levels.empty() ? config_.small_trials : config_.trials;
    for (std::uint32_t i = 0; i < trials; ++i) {
      auto const above = coarsened(top, config_.smallest, random);
      auto tried = lightest_cover(top).separated(bisected(top, above, random));
      separator_refinement(top, limit_).refine(tried, config_.passes, top.nodes());
      if (i == 0 || cost_of(tried, limit_) < cost_of(s, limit_)) s = std::move(tried);
    }
    refine_downwards(g_, levels, s);
    if ((std::max)(s.weight[0], s.weight[1]) > limit_) {
      enforce_limit(g_, s, limit_);
      separator_refinement(g_, limit_).refine(s, config_.passes, 400);
    }
    return s;
  }

 private:
  std::vector<coarser_graph> coarsened(plain_graph const& from, std::uint32_t smallest,
                                       splitmix& random) const {
    std::vector<coarser_graph> levels;
    auto const heaviest = std::max<std::int64_t>(1, total_ / (std::max)(1u, config_.smallest) * 3 / 2);
    auto const* g = &from;
    while (g->nodes() > smallest) {
      auto next = pair_contraction(*g, heaviest, random).contracted();
      if (next.graph.nodes() > g->nodes() - g->nodes() / 10) break;
      levels.push_back(std::move(next));
      g = &levels.back().graph;
    }
    return levels;
  }

  /// Returns a bisection of `finest` with few edges between the sides.
  edge_bisection bisected(plain_graph const& finest, std::vector<coarser_graph> const& levels,
                          splitmix& random) const {
    edge_bisection best;
    {
      auto const& g = levels.empty() ? finest : levels.back().graph;
      bisection_refinement refinement(g, limit_);
      for (std::uint32_t i = 0; i < (std::max)(1u, config_.growths); ++i) {
        auto s = refinement.grown(random);
        refinement.refine(s, config_.passes, g.nodes());
        if (i == 0 || s.cost(limit_) < best.cost(limit_)) best = std::move(s);
      }
    }
    for (auto i = levels.size(); i-- > 0;) {
      auto const& g = i == 0 ? finest : levels[i - 1].graph;
      std::vector<std::uint8_t> of(g.nodes());
      for (std::uint32_t n = 0; n < g.nodes(); ++n) of[n] = best.of[levels[i].cluster_of[n]];
      best.of = std::move(of);
      bisection_refinement(g, limit_).refine(best, config_.passes, 200);
    }
    return best;
  }

  void refine_downwards(plain_graph const& finest, std::vector<coarser_graph> const& levels,
                        separation& s) const {
    for (auto i = levels.size(); i-- > 0;) {
      auto const& g = i == 0 ? finest : levels[i - 1].graph;
      std::vector<std::uint8_t> of(g.nodes());
      std::size_t members = 0;
      for (std::uint32_t n = 0; n < g.nodes(); ++n) {
        of[n] = s.of[levels[i].cluster_of[n]];
        members += of[n] == in_separator;
      }
      s.of = std::move(of);
      separator_refinement(g, limit_).refine(s, config_.passes, (std::min)(5 * members, std::size_t{400}));
    }
  }

  plain_graph const& g_;
  std::int64_t limit_;
  separator_config config_;
  std::int64_t total_;
};

}  // namespace cleave::detail
