// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/finish.hpp"
#include "cleave/partition/kway/flat_graph.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/limits.hpp"
#include "cleave/partition/kway/multilevel.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/kway/probe.hpp"
#include "cleave/partition/kway/quality.hpp"
#include "cleave/partition/kway/rebalance.hpp"
#include "cleave/partition/kway/refine_level.hpp"
#include "cleave/partition/kway/team.hpp"
#include "cleave/partition/kway/two_sides.hpp"

namespace cleave {

/// What a front asks of the engine: a graph, limits, options, and parts to start from if there are any.
struct kway_task {
  flat_graph const& graph;
  std::vector<std::int64_t> limit;
  std::vector<std::uint32_t> fixed;
  std::vector<std::uint32_t> start;
  kway_options const& options;
};

template <class Level>
void finish_parts(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed) {
  active_nodes active;
  active.is.assign(g.nodes, 0);
  rebalance(g, p, fixed, active);
  pack_if_over(g, p, fixed);
  fill_empty_parts(g, p, fixed);
}

template <class Weight, class Level>
level_parts carry_out(Level const& g, kway_task& task) {
  auto const effort = effort_of(task.options.preset, g);
  thread_team const team(task.options.threads);
  level_parts p;
  bool const quality = task.options.preset == kway_preset::quality;
  quality_kway<Weight> slow(task.limit, quality_effort_of(g), task.options.seed, team, task.options.observer);
  if (task.start.empty() && quality) {
    p = slow.parts(g, task.fixed);
  } else if (task.start.empty()) {
    multilevel_kway<Weight> multilevel(std::move(task.limit), effort, task.options.seed, team,
                                       task.options.observer);
    p = multilevel.parts(g, task.fixed);
  } else {
    p.limit = std::move(task.limit);
    p.weight.assign(p.limit.size(), 0);
    p.of = std::move(task.start);
    active_nodes active;
    active.is.assign(g.nodes, 0);
    for (std::uint32_t n = 0; n < g.nodes; ++n) {
      p.weight[p.of[n]] += g.weight(n);
      if (is_on_boundary(g, p.of, n)) active.add(n);
    }
    if (quality)
      slow.improve(g, task.fixed, p);
    else
      refine_level(g, p, task.fixed, active, effort);
  }
  finish_parts(g, p, task.fixed);
  return p;
}

/// Parts of the nodes: a graph without weights is read as it is, and has weights from the first level above on.
inline level_parts kway_parts(kway_task task) {
  auto const& f = task.graph;
  if (f.weighted)
    return carry_out<std::int64_t>(
        small_view{f.nodes, f.first, f.head, f.node_weight.data(), f.arc_weight.data()}, task);
  return carry_out<std::int64_t>(
      level_view<std::int64_t, weighing::unit>{f.nodes, f.first, f.head, nullptr, nullptr}, task);
}

}  // namespace cleave
