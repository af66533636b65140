// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Pairs of neighbours along heavy edges: each node in turn takes the free neighbour of the heaviest edge, of
/// those the lightest. On regular meshes whose nodes are numbered row by row the coarse graph is such a mesh
/// again, and its straight cuts survive. O(n + m). Karypis, Kumar, SISC 20(1), 1998, §3.1.
template <class Level>
class heavy_edge_matching {
 public:
  heavy_edge_matching(Level const& g, cluster_rules const& rules) : g_(g), rules_(rules), mate_(g.nodes) {}

  /// Pairs (rounds = 1), pairs of pairs (2), and so on, in one step.
  clustering clusters(std::uint32_t rounds, thread_team const& team) {
    match_nodes(team);
    clustering c = pairs();
    for (std::uint32_t round = 1; round < rounds; ++round) join_clusters(c, team);
    return c;
  }

 private:
  void match_nodes(thread_team const& team) {
    std::fill_n(mate_.data(), mate_.size(), free_node);
    id_ranges const ranges{g_.nodes, rules_.grain};
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
        if (mate_[n] == free_node) take_neighbour(n, ranges.begin(r), ranges.end(r));
    });
  }

  void take_neighbour(std::uint32_t n, std::uint32_t lo, std::uint32_t hi) {
    auto best = free_node;
    std::int64_t heaviest = 0;
    auto const room = rules_.heaviest - g_.weight(n);
    for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) {
      auto const other = g_.head[arc];
      if (other - lo >= hi - lo || mate_[other] != free_node || other == n) continue;
      auto const w = g_.arc_weight(arc);
      if (best != free_node && (w < heaviest || (w == heaviest && g_.weight(other) >= g_.weight(best))))
        continue;
      if (g_.weight(other) > room || !rules_.may_join(n, other)) continue;
      best = other;
      heaviest = w;
    }
    mate_[n] = best == free_node ? n : best;
    if (best != free_node) mate_[best] = n;
  }

  clustering pairs() {
    clustering c;
    c.of = raw_array<std::uint32_t>(g_.nodes);
    c.begin = raw_array<std::uint32_t>(std::size_t{g_.nodes} + 1);
    c.member = raw_array<std::uint32_t>(g_.nodes);
    std::uint32_t at = 0;
    for (std::uint32_t n = 0; n < g_.nodes; ++n) {
      auto const mate = mate_[n];
      if (mate < n) continue;
      if (mate == n && g_.degree(n) == 0) {
        c.of[n] = no_cluster;
        continue;
      }
      c.begin[c.clusters] = at;
      c.member[at++] = n;
      c.of[n] = c.clusters;
      if (mate != n) {
        c.member[at++] = mate;
        c.of[mate] = c.clusters;
      }
      ++c.clusters;
    }
    c.begin[c.clusters] = at;
    return c;
  }

  /// Matches clusters as if they had been contracted.
  void join_clusters(clustering& c, thread_team const& team) {
    raw_array<std::uint32_t> mate(c.clusters);
    std::fill_n(mate.data(), c.clusters, free_node);
    auto const weight = weights(c);
    id_ranges const ranges{c.clusters, rules_.grain / 2};
    team.share(ranges.count(), [&](std::size_t r) {
      std::vector<std::pair<std::uint32_t, std::int64_t>> around;
      for (auto i = ranges.begin(r); i < ranges.end(r); ++i)
        if (mate[i] == free_node) take_cluster(c, i, ranges.begin(r), ranges.end(r), mate, weight, around);
    });
    renumber(c, mate);
  }

  std::vector<std::int64_t> weights(clustering const& c) const {
    std::vector<std::int64_t> weight(c.clusters, 0);
    for (std::uint32_t i = 0; i < c.clusters; ++i)
      for (auto at = c.begin[i]; at < c.begin[i + 1]; ++at) weight[i] += g_.weight(c.member[at]);
    return weight;
  }

  void take_cluster(clustering const& c, std::uint32_t i, std::uint32_t lo, std::uint32_t hi,
                    raw_array<std::uint32_t>& mate, std::vector<std::int64_t> const& weight,
                    std::vector<std::pair<std::uint32_t, std::int64_t>>& around) const {
    around.clear();
    for (auto at = c.begin[i]; at < c.begin[i + 1]; ++at) {
      auto const n = c.member[at];
      for (auto arc = g_.first[n]; arc < g_.first[n + 1]; ++arc) {
        auto const other = c.of[g_.head[arc]];
        if (other == i || other - lo >= hi - lo || mate[other] != free_node) continue;
        std::size_t seen = 0;
        while (seen < around.size() && around[seen].first != other) ++seen;
        if (seen == around.size()) {
          if (seen == 32) continue;  // beyond, the search would cost more than the best choice is worth
          around.emplace_back(other, 0);
        }
        around[seen].second += g_.arc_weight(arc);
      }
    }
    auto best = free_node;
    std::int64_t heaviest = 0;
    for (auto const& [other, w] : around) {
      if (best != free_node && (w < heaviest || (w == heaviest && weight[other] >= weight[best]))) continue;
      if (weight[i] + weight[other] > rules_.heaviest) continue;
      if (!rules_.may_join(bound_member(c, i), bound_member(c, other))) continue;
      best = other;
      heaviest = w;
    }
    mate[i] = best == free_node ? i : best;
    if (best != free_node) mate[best] = i;
  }

  /// A member that is bound to a part, if one is.
  std::uint32_t bound_member(clustering const& c, std::uint32_t i) const {
    if (rules_.fixed && !rules_.fixed->empty())
      for (auto at = c.begin[i]; at < c.begin[i + 1]; ++at)
        if ((*rules_.fixed)[c.member[at]] != free_node) return c.member[at];
    return c.member[c.begin[i]];
  }

  void renumber(clustering& c, raw_array<std::uint32_t> const& mate) const {
    clustering joined;
    joined.of = std::move(c.of);
    joined.begin = raw_array<std::uint32_t>(std::size_t{c.clusters} + 1);
    joined.member = raw_array<std::uint32_t>(c.begin[c.clusters]);
    std::uint32_t to = 0;
    auto const append = [&](std::uint32_t i) {
      for (auto at = c.begin[i]; at < c.begin[i + 1]; ++at) {
        joined.member[to++] = c.member[at];
        joined.of[c.member[at]] = joined.clusters;
      }
    };
    for (std::uint32_t i = 0; i < c.clusters; ++i) {
      if (mate[i] < i) continue;
      joined.begin[joined.clusters] = to;
      append(i);
      if (mate[i] != i) append(mate[i]);
      ++joined.clusters;
    }
    joined.begin[joined.clusters] = to;
    c = std::move(joined);
  }

  Level const& g_;
  cluster_rules const& rules_;
  raw_array<std::uint32_t> mate_;
};

}  // namespace cleave::detail
