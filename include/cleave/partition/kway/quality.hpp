// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/degree_parts.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/first_parts.hpp"
#include "cleave/partition/kway/flow_refinement.hpp"
#include "cleave/partition/kway/hierarchy.hpp"
#include "cleave/partition/kway/jet.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/observer.hpp"
#include "cleave/partition/kway/projection.hpp"
#include "cleave/partition/kway/quality_effort.hpp"
#include "cleave/partition/kway/rebalance.hpp"
#include "cleave/partition/kway/refine_level.hpp"
#include "cleave/partition/kway/swaps.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave {

/// Partitions by several coarsenings and first partitions, the best of which is refined by moves without
/// limits and by flows on each level, and again on levels made within the parts. Sanders, Schulz, ESA 2011
/// (flows, cycles); Walshaw, Ann. Oper. Res. 131, 2004 (cycles).
class quality_kway {
 public:
  quality_kway(std::vector<std::int64_t> limit, quality_effort const& effort, std::uint64_t seed,
               thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), effort_(effort), random_(seed), team_(team), observer_(observer) {}

  template <class Level>
  level_parts parts(Level const& g, std::vector<std::uint32_t> const& fixed) {
    weigh_edges(g);
    level_stack labelled{hierarchy(effort_.labelled).above(g, fixed)};
    bool const wide = effort_.degrees == degree_spread::wide;
    auto best = attempt(g, fixed, labelled, wide ? bisection_effort{} : effort_.matched.bisection);
    if (wide) {
      auto p = parts_by_degree(g, fixed, best.cut);
      if (excess_weight(p) == 0 && cut_of(g, p.of) <= best.cut) return p;
    }
    level_stack matched{labelled.empty() ? level_stack{} : hierarchy(effort_.matched).above(g, fixed)};
    tell(kway_phase::coarsened, g.nodes);
    for (std::uint32_t i = 0; i < effort_.tries; ++i) {
      if (i > 0) best = std::min(best, attempt(g, fixed, labelled, effort_.matched.bisection));
      if (!matched.empty()) best = std::min(best, attempt(g, fixed, matched, effort_.matched.bisection));
    }
    tell(kway_phase::first_cut, g.nodes);
    (best.stack == &labelled ? matched : labelled).clear();
    descend(g, fixed, *best.stack, best.level, 0, best.parts);
    for (std::uint32_t i = 0; i < effort_.cycles; ++i) cycle(g, fixed, best.parts);
    return std::move(best.parts);
  }

  /// Better parts than `p`, which may break their limits.
  template <class Level>
  void improve(Level const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    weigh_edges(g);
    refine(g, fixed, p);
    for (std::uint32_t i = 0; i < std::max(1u, effort_.cycles); ++i) cycle(g, fixed, p);
  }

 private:
  using level_stack = std::vector<level_above>;

  /// Parts of a level somewhere in a stack.
  struct trial {
    std::int64_t excess, cut;
    level_stack const* stack;
    std::size_t level;
    level_parts parts;
    bool operator<(trial const& o) const { return std::pair(excess, cut) < std::pair(o.excess, o.cut); }
  };

  level_hierarchy hierarchy(level_effort const& effort) const {
    return {static_cast<std::uint32_t>(limit_.size()), effort, team_};
  }

  void tell(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  /// Calls `act(graph, fixed)` with a level: 0 is `g`.
  template <class Level, class Act>
  static void at(Level const& g, std::vector<std::uint32_t> const& fixed, level_stack const& stack,
                 std::size_t level, Act const& act) {
    if (level == 0)
      act(g, fixed);
    else
      act(stack[level - 1].graph.view(), stack[level - 1].fixed);
  }

  /// First parts of the smallest level, refined down to where trials are compared.
  template <class Level>
  trial attempt(Level const& g, std::vector<std::uint32_t> const& fixed, level_stack const& stack,
                bisection_effort const& bisections) {
    trial t{0, 0, &stack, stack.size(), {}};
    at(g, fixed, stack, t.level, [&](auto const& top, auto const& bound) {
      t.parts = first_parts(top, bound, limit_, bisections, team_, random_);
      refine(top, bound, t.parts);
    });
    auto stop = t.level;
    while (stop > 1 && stack[stop - 2].graph.nodes <= effort_.trial_nodes) --stop;
    descend(g, fixed, stack, t.level, stop, t.parts);
    t.level = stop;
    t.excess = excess_weight(t.parts);
    at(g, fixed, stack, stop, [&](auto const& level, auto const&) { t.cut = cut_of(level, t.parts.of); });
    return t;
  }

  template <class Level>
  void weigh_edges(Level const& g) {
    edge_total_ = 0;
    for (std::uint32_t a = 0; a < g.arcs(); ++a) edge_total_ += g.arc_weight(a);
    edge_total_ /= 2;
  }

  /// Refined only where that may bring the cut below `rival`.
  template <class Level>
  level_parts parts_by_degree(Level const& g, std::vector<std::uint32_t> const& fixed,
                              std::int64_t rival) const {
    auto p = degree_parts(g, limit_, fixed);
    if (cut_of(g, p.of) > rival + rival / 4 || excess_weight(p) > 0) return p;
    auto active = boundary_of(g, p.of, team_);
    auto effort = effort_.matched;
    effort.passes = 10, effort.patience = 5000;
    for (int i = 0; i < 2; ++i) {
      refine_level(g, p, fixed, active, effort);
      if (refine_by_swaps(g, p, fixed, 20) == 0) break;
      active = boundary_of(g, p.of, team_);
    }
    refine_level(g, p, fixed, active, effort);
    return p;
  }

  /// Brings parts of level `from` down to level `to`, refined on each.
  template <class Level>
  void descend(Level const& g, std::vector<std::uint32_t> const& fixed, level_stack const& stack,
               std::size_t from, std::size_t to, level_parts& p) {
    for (auto level = from; level-- > to;)
      at(g, fixed, stack, level, [&](auto const& below, auto const& bound) {
        project(below, p, bound, stack[level].cluster_of, team_);
        tell(kway_phase::projected, below.nodes);
        refine(below, bound, p);
      });
  }

  template <class Level>
  void refine(Level const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    auto active = boundary_of(g, p.of, team_);
    auto gained = refine_level(g, p, fixed, active, effort_.matched);
    bool const tangled = 5 * cut_of(g, p.of) > edge_total_;  // no narrow strip holds a cut
    if (g.nodes <= effort_.jet_nodes && !tangled) gained += refine_by_jet(g, p, fixed, active, effort_.jet);
    gained +=
        refine_by_flows(g, p, fixed, g.nodes <= effort_.fine_nodes ? effort_.coarse : effort_.fine, team_);
    tell(kway_phase::refined, g.nodes, gained);
  }

  /// Coarsens within the parts and refines on the way back.
  template <class Level>
  void cycle(Level const& g, std::vector<std::uint32_t> const& fixed, level_parts& p) {
    auto stack = hierarchy(effort_.labelled).above(g, p.of);
    if (stack.empty()) return refine(g, fixed, p);
    auto const before = p;
    p.of = stack.back().fixed;
    auto const top = stack.back().graph.view();
    std::fill(p.weight.begin(), p.weight.end(), 0);
    for (std::uint32_t n = 0; n < top.nodes; ++n) p.weight[p.of[n]] += top.weight(n);
    auto bound = fixed;
    for (auto& above : stack) bound = above.fixed = lifted(bound, above);
    refine(top, stack.back().fixed, p);
    descend(g, fixed, stack, stack.size(), 0, p);
    auto const rank = [&](level_parts const& q) { return std::pair(excess_weight(q), cut_of(g, q.of)); };
    if (rank(before) < rank(p)) p = before;
  }

  /// What the nodes of a level are fixed to, from those of the level below.
  static std::vector<std::uint32_t> lifted(std::vector<std::uint32_t> const& fixed,
                                           level_above const& above) {
    if (fixed.empty()) return {};
    std::vector<std::uint32_t> up(above.graph.nodes, free_node);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      if (fixed[n] != free_node && above.cluster_of[n] != no_cluster) up[above.cluster_of[n]] = fixed[n];
    return up;
  }

  std::vector<std::int64_t> limit_;
  quality_effort effort_;
  splitmix random_;
  thread_team const& team_;
  kway_observer* observer_;
  std::int64_t edge_total_ = 0;
};

}  // namespace cleave
