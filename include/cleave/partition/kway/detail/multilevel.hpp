// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/bisection.hpp"
#include "cleave/partition/kway/detail/coarsening.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/flow.hpp"
#include "cleave/partition/kway/detail/jet.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/rounding.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Refines a level by all methods of the configuration. Returns the decrease of the cut.
inline std::int64_t refine_parts(weighted_view const& g, partitioned_level& p,
                                 std::vector<std::uint32_t> const& fixed, boundary_nodes& active,
                                 kway_config const& config, thread_team const& team) {
  auto gained = refine_level(g, p, fixed, active, config, team);
  gained += refine_by_jet(g, p, fixed, active, config.jet, team);
  if (config.flow_rounds > 0)
    gained += refine_by_flows(g, p, fixed, active,
                              {.width = {.steps = config.flow_steps}, .rounds = config.flow_rounds}, team);
  return gained;
}

/// Returns the total edge weight, each edge counted once.
inline std::int64_t edge_weight_of(weighted_view const& g) {
  if (g.edge_weights.all_one()) return static_cast<std::int64_t>(g.directed_edges() / 2);
  std::int64_t twice = 0;
  for (std::uint64_t e = 0; e < g.directed_edges(); ++e) twice += g.edge_weight(e);
  return twice / 2;
}

/// Partitions the coarsest level.
class first_cut {
 public:
  /// Creates the search. `edge_weight` is the total edge weight of the finest level.
  first_cut(std::vector<std::int64_t> const& limit, kway_config const& config, std::int64_t edge_weight,
            thread_team const& team)
      : limit_(limit), config_(config), edge_weight_(edge_weight), team_(team) {}

  partitioned_level parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                          splitmix& random) const {
    auto of = repeated_bisection(g, fixed, limit_, config_.bisection, team_).parts(random);
    if (config_.grow_parts && may_grow(g, fixed)) keep_grown_if_better(g, fixed, of, random);
    return complete(g, fixed, std::move(of));
  }

 private:
  /// Returns true if there are at least 16 parts with several nodes each, no node is fixed, and the limits
  /// differ by at most a factor of about 2.
  bool may_grow(weighted_view const& g, std::vector<std::uint32_t> const& fixed) const {
    auto const [least, most] = std::minmax_element(limit_.begin(), limit_.end());
    return limit_.size() >= 16 && g.nodes / limit_.size() >= 16 && fixed.empty() && *most / 2 <= *least;
  }

  /// Replaces `of`, made by bisections, by parts grown from centres if these cut less after refinement, or at
  /// most 0.8 % more: compact parts gain more on finer levels. Parts are not grown if `of` cuts a quarter of
  /// the edges, because then no part is compact.
  void keep_grown_if_better(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                            std::vector<std::uint32_t>& of, splitmix& random) const {
    auto const [excess, cut] = refined_rank(g, fixed, of);
    if (cut > edge_weight_ / 4) return;
    auto grown = grown_parts(g, random);
    if (!grown.empty() && refined_rank(g, fixed, grown) <= std::pair(excess, cut + cut / 128))
      of = std::move(grown);
  }

  /// Adds the part weights, and places the nodes that have no part yet.
  partitioned_level complete(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                             std::vector<std::uint32_t> of) const {
    partitioned_level p{std::move(of), {}, limit_};
    p.weigh(g);
    std::vector<std::uint32_t> unplaced;
    for (std::uint32_t n = 0; n < g.nodes; ++n)
      if (p.of[n] == no_block) unplaced.push_back(n);
    place_isolated_nodes(g, p, fixed, unplaced);
    return p;
  }

  std::vector<std::uint32_t> grown_parts(weighted_view const& g, splitmix& random) const {
    lazy_random_walk const walk(g);
    auto of = centre_growing(g, walk, limit_).parts(20, random);
    if (of.empty()) return of;
    // Fewer steps smooth less. After too many steps, a small part is spread over the whole graph, and no
    // price restores the balance.
    border_smoothing smoothing(g, walk, limit_);
    auto const grown = of;
    for (auto const steps : {8u, 4u, 2u}) {
      of = grown;
      if (smoothing.smooth(of, 10, steps) < 1.5) break;
    }
    return of;
  }

  /// Returns the weight above limits and the cut of the parts after refinement.
  std::pair<std::int64_t, std::int64_t> refined_rank(weighted_view const& g,
                                                     std::vector<std::uint32_t> const& fixed,
                                                     std::vector<std::uint32_t> of) const {
    auto p = complete(g, fixed, std::move(of));
    auto active = boundary_of(g, p.of, team_);
    auto quick = config_;
    quick.flow_rounds = 0;
    refine_parts(g, p, fixed, active, quick, team_);
    return {excess_weight(p), cut_of(g, p.of)};
  }

  std::vector<std::int64_t> const& limit_;
  kway_config const& config_;
  std::int64_t edge_weight_;
  thread_team const& team_;
};

/// Partitions a graph by multilevel k-way partitioning: coarsens it, partitions the coarsest level, and
/// refines every level on the way back. Karypis, Kumar, JPDC 48(1), 1998.
class multilevel_kway {
 public:
  multilevel_kway(std::vector<std::int64_t> limit, kway_config const& config, std::uint64_t seed,
                  thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), config_(config), random_(seed), team_(team), observer_(observer) {}

  partitioned_level parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed) {
    auto levels = level_hierarchy(static_cast<std::uint32_t>(limit_.size()), config_, team_).above(g, fixed);
    notify(kway_phase::coarsened, g.nodes);
    auto const arcs =
        config_.bisection_work * static_cast<double>((std::max)(g.directed_edges(), std::uint64_t{1} << 16));
    config_.bisection.arcs = static_cast<std::uint32_t>((std::min)(arcs, 0x1p22));
    auto const top = [&] { return levels.empty() ? g : levels.back().graph.view(); };
    auto const bound = [&]() -> auto const& { return levels.empty() ? fixed : levels.back().fixed; };
    if (periphery_cuts_less(g, fixed, top(), bound())) {
      levels.clear();
      peel_periphery();
    }
    auto p = first_cut(limit_, config_, edge_weight_of(g), team_).parts(top(), bound(), random_);
    notify(kway_phase::first_cut, top().nodes);
    auto active = no_boundary_nodes(top().nodes);
    for (std::uint32_t n = 0; n < top().nodes; ++n) active.add(n);
    refine(top(), p, bound(), active);
    while (!levels.empty()) {
      auto const cluster_of = std::move(levels.back().cluster_of);
      levels.pop_back();
      project(top(), p, bound(), cluster_of, team_);
      active = boundary_of(top(), p.of, team_, [&](std::uint32_t n) {
        return cluster_of[n] != no_cluster && active.is[cluster_of[n]];
      });
      notify(kway_phase::projected, top().nodes);
      refine(top(), p, bound(), active);
    }
    return p;
  }

 private:
  void notify(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  /// Returns true if nodes with few edges can fill a side of the first bisection, and their edges weigh less
  /// than the cut of a bisection of the coarsest level. Such nodes lie around a dense core, which clusters
  /// would hide. Borgatti, Everett, Social Networks 21(4), 2000 (core and periphery).
  bool periphery_cuts_less(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                           weighted_view const& top, std::vector<std::uint32_t> const& top_fixed) const {
    if (!fixed.empty() || g.further.limits) return false;
    auto const coarse =
        repeated_bisection(top, top_fixed, limit_, config_.bisection, team_).first_sides(random_);
    auto const side = (std::min)(coarse.weight[0], coarse.weight[1]);
    return lightest_periphery(g, side, team_) < static_cast<double>(coarse.cut);
  }

  /// Sums over nodes with about the same edge weight per node weight.
  struct periphery_bucket {
    double edges = 0, nodes = 0;
  };
  using periphery = std::vector<periphery_bucket>;

  /// Estimates the total edge weight of nodes that weigh `weight` together, lightest edges per weight first.
  /// Nodes are sorted into buckets. O(n + m), or O(n) without edge weights.
  static double lightest_periphery(weighted_view const& g, std::int64_t weight, thread_team const& team) {
    id_ranges const ranges{g.nodes, 1u << 17};
    std::vector<periphery> found(ranges.count(), periphery(gain_buckets::buckets));
    team.share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n) add_node(found[r], g, n);
    });
    double edges = 0, left = static_cast<double>(weight);
    for (std::size_t b = 0; b < gain_buckets::buckets; ++b) {
      periphery_bucket sum;
      for (auto const& of_range : found) sum.edges += of_range[b].edges, sum.nodes += of_range[b].nodes;
      if (sum.nodes >= left) return edges + (sum.nodes > 0 ? sum.edges * (left / sum.nodes) : 0);
      edges += sum.edges, left -= sum.nodes;
    }
    return edges;
  }

  /// Adds a node to its bucket.
  static void add_node(periphery& buckets, weighted_view const& g, std::uint32_t n) {
    std::int64_t edges = 0;
    if (g.edge_weights.all_one())
      edges = static_cast<std::int64_t>(g.degree(n));
    else
      for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e) edges += g.edge_weight(e);
    auto const w = static_cast<double>(std::max<std::int64_t>(1, g.weight(n)));
    auto const density = static_cast<double>(edges) / w;
    auto& bucket =
        buckets[gain_buckets::bucket_of(static_cast<std::int64_t>((std::min)(density, 0x1p40) * 0x1p10))];
    bucket.edges += static_cast<double>(edges);
    bucket.nodes += static_cast<double>(g.weight(n));
  }

  /// Configures bisections of the whole graph that grow a side from the nodes with the lightest edges.
  void peel_periphery() {
    config_.grow_parts = false;
    config_.bisection.smallest = ~0u;  // no contraction
    config_.bisection.restarts = config_.bisection.least_restarts = config_.bisection.growths = 1;
  }

  void refine(weighted_view const& g, partitioned_level& p, std::vector<std::uint32_t> const& fixed,
              boundary_nodes& active) const {
    auto const gained = refine_parts(g, p, fixed, active, config_, team_);
    notify(kway_phase::refined, g.nodes, gained);
  }

  std::vector<std::int64_t> limit_;
  kway_config config_;
  splitmix random_;
  thread_team const& team_;
  kway_observer* observer_;
};

}  // namespace cleave::detail
