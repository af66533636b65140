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
  if (task.start.empty()) {
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
    refine_level(g, p, task.fixed, active, effort);
  }
  finish_parts(g, p, task.fixed);
  return p;
}

/// Parts of the nodes, in the narrowest numbers that hold the sums of weights.
inline level_parts kway_parts(kway_task task) {
  auto const& f = task.graph;
  if (!f.weighted)
    return carry_out<std::int32_t>(
        level_view<std::int32_t, weighing::unit>{f.nodes, f.first, f.head, nullptr, nullptr}, task);
  if (!f.narrow())
    return carry_out<std::int64_t>(
        small_view{f.nodes, f.first, f.head, f.node_weight.data(), f.arc_weight.data()}, task);
  raw_array<std::int32_t> nodes(f.nodes), arcs(f.arcs());
  for (std::uint32_t n = 0; n < f.nodes; ++n) nodes[n] = static_cast<std::int32_t>(f.node_weight[n]);
  for (std::uint32_t arc = 0; arc < f.arcs(); ++arc) arcs[arc] = static_cast<std::int32_t>(f.arc_weight[arc]);
  return carry_out<std::int32_t>(
      level_view<std::int32_t, weighing::given>{f.nodes, f.first, f.head, nodes.data(), arcs.data()}, task);
}

}  // namespace cleave
