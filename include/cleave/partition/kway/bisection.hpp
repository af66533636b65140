// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/contract.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/grow_side.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"
#include "cleave/partition/kway/two_sides.hpp"

namespace cleave::detail {

/// A bisection of a graph with limits for both sides: multilevel, the smallest graph grown from several
/// nodes, each level refined by moves. O((n + m) * restarts).
class multilevel_bisection {
 public:
  multilevel_bisection(weighted_view const& g, std::vector<std::uint32_t> fixed,
                       std::array<std::int64_t, 2> limit, std::int64_t aim, bisection_effort const& effort)
      : g_(g), fixed_(std::move(fixed)), limit_(limit), aim_(aim), effort_(effort) {}

  /// Of one hierarchy; the first of several restarts is 0.
  two_sides sides(std::uint64_t seed, std::uint32_t restart) const {
    splitmix random(seed);
    auto const levels = coarsened(random, restart);
    auto const view = [&](std::size_t i) { return i == 0 ? g_ : levels[i - 1].graph.view(); };
    auto const& fixed_at = [&](std::size_t i) -> std::vector<std::uint32_t> const& {
      return i == 0 ? fixed_ : levels[i - 1].fixed;
    };
    auto s = first_bisection(view(levels.size()), fixed_at(levels.size()), random);
    for (auto i = levels.size(); i-- > 0;) {
      auto const g = view(i);
      s = projected(g, levels[i].cluster_of, s);
      two_way_fm(g, fixed_at(i)).refine(s, effort_.passes, effort_.patience);
    }
    return s;
  }

 private:
  struct level {
    level_graph graph;
    std::vector<std::uint32_t> fixed;
    raw_array<std::uint32_t> cluster_of;  // of the nodes below
  };

  std::vector<level> coarsened(splitmix& random, std::uint32_t restart) const {
    std::vector<level> levels;
    std::int64_t total = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) total += g_.weight(n);
    auto g = g_;
    auto const* fixed = &fixed_;
    while (g.nodes > effort_.smallest) {
      auto clusters =
          matched(g, *fixed, std::max<std::int64_t>(total * 3 / (2 * std::int64_t{effort_.smallest}), 1),
                  restart, random);
      if (clusters.clusters > g.nodes - g.nodes / 10) break;
      level next;
      next.graph = contraction(g, clusters).graph(thread_team{});
      if (!fixed->empty()) {
        next.fixed.assign(clusters.clusters, free_node);
        for (std::uint32_t n = 0; n < g.nodes; ++n)
          if ((*fixed)[n] != free_node) next.fixed[clusters.of[n]] = (*fixed)[n];
      }
      next.cluster_of = std::move(clusters.of);
      levels.push_back(std::move(next));
      g = levels.back().graph.view();
      fixed = &levels.back().fixed;
    }
    return levels;
  }

  /// Pairs along heavy edges for their weight, nodes visited in id order first and in random order after
  /// that.
  static clustering matched(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                            std::int64_t heaviest, std::uint32_t restart, splitmix& random) {
    cluster_rules const rules{.heaviest = heaviest, .fixed = &fixed};
    std::vector<std::uint32_t> order(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) order[n] = n;
    if (restart > 0) random.shuffle(order);
    raw_array<std::uint32_t> leader(g.nodes);
    std::fill_n(leader.data(), g.nodes, no_cluster);
    auto lone = free_node;
    for (auto const n : order) {
      if (leader[n] != no_cluster) continue;
      auto best = free_node;
      double most = 0;
      for (auto arc = g.first[n]; arc < g.first[n + 1]; ++arc) {
        auto const other = g.head[arc];
        if (leader[other] != no_cluster || g.weight(n) + g.weight(other) > heaviest ||
            !rules.may_join(n, other))
          continue;
        auto const rating = static_cast<double>(g.arc_weight(arc)) /
                            static_cast<double>(std::max<std::int64_t>(1, g.weight(other)));
        if (rating > most) most = rating, best = other;
      }
      if (best == free_node && g.degree(n) == 0) {
        // Nodes without edges have each other.
        if (lone != free_node && g.weight(n) + g.weight(lone) <= heaviest && rules.may_join(n, lone))
          best = std::exchange(lone, free_node);
        else {
          lone = n;
          leader[n] = n;
          continue;
        }
      }
      auto const lead = best == free_node ? n : (std::min)(n, best);
      leader[n] = lead;
      if (best != free_node) leader[best] = lead;
    }
    return numbered_clusters(std::move(leader), {g.nodes, (std::max)(g.nodes, 1u)}, thread_team{});
  }

  two_sides first_bisection(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                            splitmix& random) const {
    side_growing growing(g, fixed);
    two_way_fm fm(g, fixed);
    two_sides best;
    for (std::uint32_t i = 0; i < effort_.growths; ++i) {
      two_sides s;
      s.limit = limit_;
      growing.grow(s, i == 0 ? growth::anywhere : growth::around_a_node, aim_, random);
      fm.refine(s, effort_.passes, g.nodes);
      if (i == 0 || s.better_than(best)) best = std::move(s);
    }
    return best;
  }

  static two_sides projected(weighted_view const& g, raw_array<std::uint32_t> const& cluster_of,
                             two_sides const& s) {
    two_sides below;
    below.weight = s.weight, below.limit = s.limit, below.cut = s.cut;
    below.of.resize(g.nodes);
    for (std::uint32_t n = 0; n < g.nodes; ++n) below.of[n] = s.of[cluster_of[n]];
    return below;
  }

  weighted_view g_;
  std::vector<std::uint32_t> fixed_;  // to a side
  std::array<std::int64_t, 2> limit_;
  std::int64_t aim_;
  bisection_effort effort_;
};

}  // namespace cleave::detail
