// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/first_cut.hpp"
#include "cleave/partition/kway/flow_refinement.hpp"
#include "cleave/partition/kway/hierarchy.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/observer.hpp"
#include "cleave/partition/kway/projection.hpp"
#include "cleave/partition/kway/refine_level.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Coarsen, cut the smallest level, and refine on the way back. Karypis, Kumar, JPDC 48(1), 1998.
class multilevel_kway {
 public:
  multilevel_kway(std::vector<std::int64_t> limit, level_effort const& effort, std::uint64_t seed,
                  thread_team const& team, kway_observer* observer)
      : limit_(std::move(limit)), effort_(effort), random_(seed), team_(team), observer_(observer) {}

  template <class Level>
  level_parts parts(Level const& g, std::vector<std::uint32_t> const& fixed) {
    auto levels = level_hierarchy(static_cast<std::uint32_t>(limit_.size()), effort_, team_).above(g, fixed);
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
      p = first_cut(limit_, effort_, team_).parts(top, bound, random_);
      tell(kway_phase::first_cut, top.nodes);
      active = no_active_nodes(top.nodes);
      for (std::uint32_t n = 0; n < top.nodes; ++n) active.add(n);
      refine(top, p, bound, active);
    });
    while (!levels.empty()) {
      auto const cluster_of = std::move(levels.back().cluster_of);
      levels.pop_back();
      at([&](auto const& below, auto const& bound) {
        project(below, p, bound, cluster_of, team_);
        active = boundary_of(below, p.of, team_, [&](std::uint32_t n) {
          return cluster_of[n] != no_cluster && active.is[cluster_of[n]];
        });
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
    auto gained = refine_level(g, p, fixed, active, effort_, team_);
    if (effort_.flow_rounds > 0 && g.nodes <= effort_.flow_nodes) {
      gained +=
          refine_by_flows(g, p, fixed, active,
                          {.width = {.steps = effort_.flow_steps}, .rounds = effort_.flow_rounds}, team_);
    }
    tell(kway_phase::refined, g.nodes, gained);
  }

  std::vector<std::int64_t> limit_;
  level_effort effort_;
  splitmix random_;
  thread_team const& team_;
  kway_observer* observer_;
};

}  // namespace cleave::detail
