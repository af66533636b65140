// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/contract.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/label_clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/matching.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// A level that stands on another.
struct level_above {
  level_graph graph;
  raw_array<std::uint32_t> cluster_of;  ///< of the nodes of the level below: the node here, or `no_cluster`
  std::vector<std::uint32_t> fixed;  ///< the part that a node here must be in, or `free_node`; may be empty
};

/// Levels above a graph, each a contraction of the last, until one is small or hardly shrinks any more.
class level_hierarchy {
 public:
  level_hierarchy(std::uint32_t parts, level_effort const& effort, thread_team const& team)
      : target_((std::max)(effort.least_nodes, effort.nodes_a_part * parts)), effort_(effort), team_(team) {}

  template <class Level>
  std::vector<level_above> above(Level const& g, std::vector<std::uint32_t> const& fixed) {
    std::vector<level_above> levels;
    total_ = 0;
    for (std::uint32_t n = 0; n < g.nodes; ++n) total_ += g.weight(n);
    width_ = width_of(g);
    heaviest_ = std::max<std::int64_t>(1, total_ / (2 * std::int64_t{target_}) * 3);
    if (g.nodes <= target_ || !add(levels, g, fixed)) return levels;
    while (levels.back().graph.nodes > target_)
      if (!add(levels, levels.back().graph.view(), levels.back().fixed)) break;
    return levels;
  }

 private:
  template <class Level>
  bool add(std::vector<level_above>& levels, Level const& g, std::vector<std::uint32_t> const& fixed) {
    auto const level_cap = total_ / std::max<std::int64_t>(1, g.nodes) * std::int64_t{effort_.shrink};
    cluster_rules rules{.heaviest = (std::min)(heaviest_, std::max<std::int64_t>(level_cap, 1)),
                        .fixed = &fixed};
    rules.tie = effort_.tie;
    rules.grain = grain_for(g.nodes);
    if (local_share(g, rules.grain) < 0.8) rules.grain = g.nodes;
    auto c = clusters(g, rules);
    if (c.clusters > g.nodes - g.nodes / 20) return false;
    level_above next;
    next.graph = contraction(g, c).graph(team_, width_);
    if (!fixed.empty()) {
      next.fixed.assign(c.clusters, free_node);
      for (std::uint32_t n = 0; n < g.nodes; ++n)
        if (fixed[n] != free_node && c.of[n] != no_cluster) next.fixed[c.of[n]] = fixed[n];
    }
    next.cluster_of = std::move(c.of);
    levels.push_back(std::move(next));
    return true;
  }

  /// What weights of all levels above fit in.
  template <class Level>
  weight_width width_of(Level const& g) const {
    if (g.width() == weight_width::narrow) return weight_width::narrow;
    std::int64_t arcs = 0;
    for (std::uint32_t arc = 0; arc < g.arcs(); ++arc) arcs += g.arc_weight(arc);
    return (std::max)(arcs, total_) <= 0xffffffff ? weight_width::narrow : weight_width::wide;
  }

  /// Nodes a range: about 2^17, of ranges an even number, so that two threads are done at the same time.
  static std::uint32_t grain_for(std::uint32_t nodes) {
    constexpr std::uint32_t about = 1u << 17;
    if (nodes <= about) return about;
    auto const ranges = 2 * ((nodes - 1) / (2 * about) + 1);
    return (nodes - 1) / ranges + 1;
  }

  /// Of the arcs of some nodes, the share that stays in the range of its node.
  template <class Level>
  static double local_share(Level const& g, std::uint32_t grain) {
    std::uint64_t inside = 0, arcs = 0;
    auto const step = std::max<std::uint64_t>(37, g.nodes / 4096);
    for (std::uint64_t n = 0; n < g.nodes && g.nodes > grain; n += step) {
      auto const node = static_cast<std::uint32_t>(n);
      for (auto arc = g.first[node]; arc < g.first[node + 1]; ++arc)
        inside += g.head[arc] / grain == node / grain;
      arcs += g.degree(node);
    }
    return arcs == 0 ? 1 : static_cast<double>(inside) / static_cast<double>(arcs);
  }

  template <class Level>
  clustering clusters(Level const& g, cluster_rules const& rules) const {
    if (effort_.clusters == coarsening::matching)
      return heavy_edge_matching<Level>(g, rules).clusters(effort_.match_rounds, team_);
    if (width_ == weight_width::narrow)
      return label_clustering<Level, std::uint32_t>(g, rules).clusters(effort_.label_rounds, team_);
    return label_clustering<Level>(g, rules).clusters(effort_.label_rounds, team_);
  }

  std::uint32_t target_;
  level_effort effort_;
  thread_team const& team_;
  std::int64_t total_ = 0, heaviest_ = 1;
  weight_width width_ = weight_width::wide;
};

}  // namespace cleave::detail
