// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/flow_refinement.hpp"
#include "cleave/partition/kway/hierarchy.hpp"
#include "cleave/partition/kway/left_out.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/observer.hpp"
#include "cleave/partition/kway/part_links.hpp"
#include "cleave/partition/kway/refine_level.hpp"
#include "cleave/partition/kway/repeated_bisection.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave {

/// Coarsen, cut the smallest level by bisections, and refine on the way back. Karypis, Kumar, JPDC 48(1),
/// 1998.
template <class Weight>
class multilevel_kway {
 public:
  multilevel_kway(std::vector<std::int64_t> limit, level_effort const& effort, std::uint64_t seed,
                  thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), effort_(effort), random_(seed), team_(team), observer_(observer) {}

  template <class Level>
  level_parts parts(Level const& g, std::vector<std::uint32_t> const& fixed) {
    auto levels =
        level_hierarchy<Weight>(static_cast<std::uint32_t>(limit_.size()), effort_, team_).above(g, fixed);
    tell(kway_phase::coarsened, g.nodes);
    auto const at = [&](auto const& act) {
      if (levels.empty())
        act(g, fixed);
      else
        act(levels.back().graph.view(), levels.back().fixed);
    };
    level_parts p;
    active_nodes active;
    at([&](auto const& top, auto const& bound) {
      p = first_parts(top, bound);
      tell(kway_phase::first_cut, top.nodes);
      active.is.assign(top.nodes, 0);
      for (std::uint32_t n = 0; n < top.nodes; ++n) active.add(n);
      refine(top, p, bound, active);
    });
    while (!levels.empty()) {
      auto const cluster_of = std::move(levels.back().cluster_of);
      levels.pop_back();
      at([&](auto const& below, auto const& bound) {
        descend(below, p, bound, active, cluster_of);
        tell(kway_phase::projected, below.nodes);
        refine(below, p, bound, active);
      });
    }
    return p;
  }

 private:
  void tell(kway_phase phase, std::size_t nodes, std::int64_t gained = 0) const {
    if (observer_) observer_->passed(phase, nodes, gained);
  }

  template <class Level>
  void refine(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed,
              active_nodes& active) const {
    auto gained = refine_level(g, p, fixed, active, effort_);
    if (effort_.flow_rounds > 0 && g.nodes <= effort_.flow_nodes) {
      gained += refine_by_flows(
          g, p, fixed, {.width = {.steps = effort_.flow_steps}, .rounds = effort_.flow_rounds}, team_);
      active.is.assign(g.nodes, 0);
      active.list.clear();
      for (std::uint32_t n = 0; n < g.nodes; ++n)
        if (is_on_boundary(g, p.of, n)) active.add(n);
    }
    tell(kway_phase::refined, g.nodes, gained);
  }

  template <class Level>
  level_parts first_parts(Level const& top, std::vector<std::uint32_t> const& fixed) {
    level_graph<std::int64_t> wide;
    wide.node_weights = raw_array<std::int64_t>(top.nodes);
    wide.arc_weights = raw_array<std::int64_t>(top.arcs());
    for (std::uint32_t n = 0; n < top.nodes; ++n) wide.node_weights[n] = top.weight(n);
    for (std::uint32_t arc = 0; arc < top.arcs(); ++arc) wide.arc_weights[arc] = top.arc_weight(arc);
    small_view const view{top.nodes, top.first, top.head, wide.node_weights.data(), wide.arc_weights.data()};
    level_parts p;
    p.limit = limit_;
    p.of = repeated_bisection(view, fixed, limit_, effort_.bisection, team_).parts(random_);
    p.weight.assign(limit_.size(), 0);
    for (std::uint32_t n = 0; n < top.nodes; ++n) p.weight[p.of[n]] += top.weight(n);
    return p;
  }

  /// Parts of the level below, and its nodes that have neighbours in other parts.
  template <class Level>
  void descend(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed, active_nodes& active,
               raw_array<std::uint32_t> const& cluster_of) const {
    id_ranges const ranges{g.nodes, 1u << 16};
    std::vector<std::vector<std::uint32_t>> found(ranges.count());
    std::vector<std::uint32_t> of(g.nodes);
    team_.share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
        if (cluster_of[n] == no_cluster)
          found[r].push_back(n);
        else
          of[n] = p.of[cluster_of[n]];
      }
    });
    p.of = std::move(of);
    std::vector<std::uint32_t> left_out;
    for (auto& nodes : found) {
      left_out.insert(left_out.end(), nodes.begin(), nodes.end());
      nodes.clear();
    }
    place_left_out(g, p, fixed, left_out);
    team_.share(ranges.count(), [&](std::size_t r) {
      for (auto n = ranges.begin(r); n < ranges.end(r); ++n)
        if (cluster_of[n] != no_cluster && active.is[cluster_of[n]] && is_on_boundary(g, p.of, n))
          found[r].push_back(n);
    });
    active.is.assign(g.nodes, 0);
    active.list.clear();
    for (auto const& nodes : found)
      for (auto const n : nodes) active.add(n);
  }

  std::vector<std::int64_t> limit_;
  level_effort effort_;
  splitmix random_;
  thread_team const& team_;
  kway_observer* observer_;
};

}  // namespace cleave
