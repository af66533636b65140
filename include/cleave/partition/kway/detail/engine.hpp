// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/connected_parts.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/presets.hpp"
#include "cleave/partition/kway/detail/quality.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::detail {

/// Brings parts within their limits where possible, and fills empty parts.
inline void finish_parts(weighted_view const& g, partitioned_level& p,
                         std::vector<std::uint32_t> const& fixed) {
  if (excess_weight(p) > 0) {
    auto active = no_boundary_nodes(g.nodes);
    rebalance(g, p, fixed, active);
    pack_if_over(g, p, fixed);
  }
  fill_empty_parts(g, p, fixed);
}

/// Partitions a graph with the preset of the options.
inline partitioned_level run_multilevel(weighted_view const& g, std::vector<std::int64_t> const& limit,
                                        std::vector<std::uint32_t> const& fixed, kway_options const& o,
                                        thread_team const& team) {
  if (o.preset == kway_preset::quality)
    return quality_kway(limit, choose_quality_config(), o.seed, team, o.observer).parts(g, fixed);
  return multilevel_kway(limit, choose_config(o.preset), o.seed, team, o.observer).parts(g, fixed);
}

/// Refines the given parts with the effort of the preset.
inline partitioned_level refined_parts(weighted_view const& g, kway_problem& task, thread_team const& team) {
  auto const& o = task.options;
  partitioned_level p{std::move(task.start), std::vector<std::int64_t>(task.limit.size()), task.limit};
  for (std::uint32_t n = 0; n < g.nodes; ++n) p.weight[p.of[n]] += g.weight(n);
  if (o.preset == kway_preset::quality) {
    quality_kway(task.limit, choose_quality_config(), o.seed, team, o.observer).improve(g, task.fixed, p);
  } else {
    auto active = boundary_of(g, p.of, team);
    refine_parts(g, p, task.fixed, active, choose_config(o.preset), team);
  }
  return p;
}

/// Partitions or refines the graph `g` of the task, then balances the result.
inline partitioned_level parts_of_level(weighted_view const& g, kway_problem& task) {
  thread_team const team(task.options.threads);
  auto p = task.start.empty() ? run_multilevel(g, task.limit, task.fixed, task.options, team)
                              : refined_parts(g, task, team);
  finish_parts(g, p, task.fixed);
  if (task.options.connected) connected_parts(g, p, task.fixed).repair();
  return p;
}

/// Returns the parts of the nodes of the task's graph.
inline partitioned_level kway_parts(kway_problem task) {
  auto const& f = task.graph;
  return parts_of_level(
      weighted_view{f.nodes, f.offsets, f.targets, f.node_weight.data(), f.edge_weight.data()}, task);
}

}  // namespace cleave::detail
