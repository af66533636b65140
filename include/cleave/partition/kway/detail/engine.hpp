// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/boundary.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/connected_parts.hpp"
#include "cleave/partition/kway/detail/further_balancing.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/multilevel.hpp"
#include "cleave/partition/kway/detail/presets.hpp"
#include "cleave/partition/kway/detail/quality.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/several_weights.hpp"
#include "cleave/partition/kway/detail/task.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave::inline v0_2::detail {

/// Brings parts within their limits where possible, and fills empty parts.
inline void finish_parts(weighted_view const& g, partitioned_level& p,
                         std::vector<std::uint32_t> const& fixed, thread_team const& team = thread_team{}) {
  if (excess_weight(p) > 0) {
    auto active = no_boundary_nodes(g.nodes);
    rebalance(g, p, fixed, active);
    if (p.further.limits) further_balancing(g, p, fixed, active).repair();
    bool const was_over = excess_weight(p) > 0;
    pack_if_over(g, p, fixed);
    if (p.further.limits && was_over && excess_weight(p) == 0) {  // packed without regard to the cut
      active = boundary_of(g, p.of, team);
      refine_parts(g, p, fixed, active, choose_config(kway_preset::fast, true), team);
    }
  }
  fill_empty_parts(g, p, fixed);
}

/// Partitions a graph with the preset of the options.
inline partitioned_level run_multilevel(weighted_view const& g, std::vector<std::int64_t> const& limit,
                                        std::vector<std::uint32_t> const& fixed, kway_options const& o,
                                        thread_team const& team) {
  bool const several = g.further.limits != nullptr;
  if (o.preset == kway_preset::quality)
    return quality_kway(limit, choose_quality_config(several), o.seed, team, o.observer).parts(g, fixed);
  return multilevel_kway(limit, choose_config(o.preset, several), o.seed, team, o.observer).parts(g, fixed);
}

/// Refines the given parts with the effort of the preset.
inline partitioned_level refined_parts(weighted_view const& g, kway_problem& task, thread_team const& team) {
  auto const& o = task.options;
  bool const several = g.further.limits != nullptr;
  partitioned_level p{std::move(task.start), {}, task.limit};
  p.weigh(g);
  if (o.preset == kway_preset::quality) {
    quality_kway(task.limit, choose_quality_config(several), o.seed, team, o.observer)
        .improve(g, task.fixed, p);
  } else {
    auto active = boundary_of(g, p.of, team);
    refine_parts(g, p, task.fixed, active, choose_config(o.preset, several), team);
  }
  return p;
}

/// Partitions or refines the graph `g` of the task, then balances the result.
inline partitioned_level parts_of_level(weighted_view const& g, kway_problem& task) {
  thread_team const team(task.options.threads);
  auto p = task.start.empty() ? run_multilevel(g, task.limit, task.fixed, task.options, team)
                              : refined_parts(g, task, team);
  finish_parts(g, p, task.fixed, team);
  if (task.options.connected) connected_parts(g, p, task.fixed).repair();
  return p;
}

/// The part of each node, and whether all parts are within their limits.
struct placed_nodes {
  std::vector<std::uint32_t> of;
  bool within_limits = true;
};

/// Partitions or refines the task's graph.
inline placed_nodes kway_parts(kway_problem task) {
  auto const& f = task.graph;
  weighted_view g{f.nodes, f.offsets, f.targets, f.node_weight.data(), f.edge_weight.data()};
  auto const placed = [&] {
    auto p = parts_of_level(g, task);
    bool const within = excess_weight(p) == 0;
    return placed_nodes{std::move(p.of), within};
  };
  if (task.options.further_weights.empty()) return placed();
  several_weights const weights(f, task.limit, task.options);
  g.node_weights = weights.guide();
  g.further = weights.view();
  task.limit = weights.guide_limits();
  return placed();
}

}  // namespace cleave::detail
