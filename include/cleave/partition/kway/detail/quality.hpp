// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/coarsening.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/flow.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Makes several multilevel partitions and combines the best one with each of the others. To combine two, it
/// coarsens only within the intersections of their parts and refines on the way back. At the end, flow
/// refinement runs in wide regions between parts. Sanders, Schulz, ESA 2011 (flows, cycles), and ALENEX 2012
/// (combination); Walshaw, Ann. Oper. Res. 131, 2004 (cycles).
class quality_kway {
 public:
  quality_kway(std::vector<std::int64_t> limit, quality_config config, std::uint64_t seed,
               thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), config_(std::move(config)), seed_(seed), team_(team), observer_(observer) {}

  /// Partitions a graph. The result is never worse than that of `multilevel_kway` with the same seed and the
  /// configuration `standard`.
  partitioned_level parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed) {
    auto made = trials(g, fixed);
    std::vector<rank> ranks;
    for (auto const& p : made) ranks.push_back(rank_of(g, p));
    auto const least = std::min_element(ranks.begin(), ranks.end()) - ranks.begin();
    std::swap(made[0], made[static_cast<std::size_t>(least)]);
    auto best = std::move(made[0]);
    for (std::size_t i = 1; i < made.size(); ++i) {
      number_together(best, made[i].of);
      cycle(g, fixed, best, std::move(made[i].of));
    }
    finish(g, fixed, best);
    return best;
  }

  /// Improves `p`, whose parts may exceed their limits.
  void improve(weighted_view const& g, std::vector<std::uint32_t> const& fixed, partitioned_level& p) {
    refine(g, fixed, p);
    cycle(g, fixed, p, p.of);
    finish(g, fixed, p);
  }

 private:
  using rank = std::pair<std::int64_t, std::int64_t>;  // weight above limits, then cut

  static rank rank_of(weighted_view const& g, partitioned_level const& p) {
    return {excess_weight(p), cut_of(g, p.of)};
  }

  void notify(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  /// Makes independent partitions, in parallel if there are threads.
  std::vector<partitioned_level> trials(weighted_view const& g,
                                        std::vector<std::uint32_t> const& fixed) const {
    auto const count = config_.trials.size() + 1;
    std::vector<std::uint64_t> seeds{seed_};
    splitmix random(seed_);
    while (seeds.size() < count) seeds.push_back(random.next());
    std::vector<partitioned_level> made(count);
    thread_team const each((std::max)(1u, team_.threads() / static_cast<std::uint32_t>(count)));
    team_.share(count, [&](std::size_t i) {
      auto const& config = i == 0 ? config_.standard : config_.trials[i - 1];
      made[i] = multilevel_kway(limit_, config, seeds[i], each, i == 0 ? observer_ : nullptr).parts(g, fixed);
    });
    return made;
  }

  /// Renumbers `other` by the intersections of its parts with the parts of `p`.
  static void number_together(partitioned_level const& p, std::vector<std::uint32_t>& other) {
    bool const fits = p.parts() < 1u << 16;  // a pair of parts fits 32 bits
    for (std::size_t n = 0; n < other.size(); ++n) other[n] = fits ? p.of[n] * p.parts() + other[n] : p.of[n];
  }

  void refine(weighted_view const& g, std::vector<std::uint32_t> const& fixed, partitioned_level& p) {
    auto active = boundary_of(g, p.of, team_);
    auto const gained = refine_parts(g, p, fixed, active, config_.standard, team_);
    notify(kway_phase::refined, g.nodes, gained);
  }

  /// Coarsens within the classes of `together`, which lie within parts of `p`, and refines on the way back.
  void cycle(weighted_view const& g, std::vector<std::uint32_t> const& fixed, partitioned_level& p,
             std::vector<std::uint32_t> together) {
    auto stack = level_hierarchy(p.parts(), config_.standard, team_).above(g, together);
    together = {};
    if (stack.empty()) return refine(g, fixed, p);
    auto const before = p;
    auto bound = fixed;
    for (auto& above : stack) {
      p.of = lifted(p.of, above);
      bound = above.fixed = lifted(bound, above);
    }
    auto const top = stack.back().graph.view();
    p.weigh(top);
    refine(top, stack.back().fixed, p);
    while (!stack.empty()) {
      auto const cluster_of = std::move(stack.back().cluster_of);
      stack.pop_back();
      if (stack.empty())
        descend(g, fixed, cluster_of, p);
      else
        descend(stack.back().graph.view(), stack.back().fixed, cluster_of, p);
    }
    if (rank_of(g, before) < rank_of(g, p)) p = before;
  }

  void descend(weighted_view const& below, std::vector<std::uint32_t> const& fixed,
               uninitialized_array<std::uint32_t> const& cluster_of, partitioned_level& p) {
    project(below, p, fixed, cluster_of, team_);
    notify(kway_phase::projected, below.nodes);
    refine(below, fixed, p);
  }

  /// Returns the part of each node of the coarser level: that of any member that has one.
  static std::vector<std::uint32_t> lifted(std::vector<std::uint32_t> const& of, level_above const& above) {
    if (of.empty()) return {};
    std::vector<std::uint32_t> up(above.graph.nodes, no_block);
    for (std::size_t n = 0; n < of.size(); ++n)
      if (of[n] != no_block && above.cluster_of[n] != no_cluster) up[above.cluster_of[n]] = of[n];
    return up;
  }

  void finish(weighted_view const& g, std::vector<std::uint32_t> const& fixed, partitioned_level& p) {
    auto deep = config_.standard;
    deep.passes = 10, deep.max_fruitless_moves = 5000;
    std::int64_t gained = 0;
    for (std::uint32_t i = 0; i < config_.swap_rounds; ++i) {
      auto active = boundary_of(g, p.of, team_);
      auto const gain = refine_level(g, p, fixed, active, deep, team_) + refine_by_swaps(g, p, fixed, 20);
      gained += gain;
      if (gain <= 0) break;
    }
    if (config_.strip_rounds > 0) {
      auto active = boundary_of(g, p.of, team_);
      auto const steps = strip_steps(g, active);
      gained += refine_by_flows(g, p, fixed, active,
                                {.width = {.steps = steps}, .rounds = config_.strip_rounds}, team_);
    }
    notify(kway_phase::refined, g.nodes, gained);
  }

  /// Returns the width of flow regions in steps. Their running time grows with the square of the width.
  std::uint32_t strip_steps(weighted_view const& g, boundary_nodes const& boundary) const {
    auto const border = static_cast<double>(boundary.list.size());
    auto const fits = [&](std::uint32_t steps) {
      return border * steps * steps <= config_.strip_share * g.nodes;
    };
    std::uint32_t steps = 2;
    while (steps < 48 && fits(steps + 1)) ++steps;
    return steps;
  }

  std::vector<std::int64_t> limit_;
  quality_config config_;
  std::uint64_t seed_;
  thread_team const& team_;
  kway_observer* observer_;
};

}  // namespace cleave::detail
