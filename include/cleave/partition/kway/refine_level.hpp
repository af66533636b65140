// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/boundary.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/kway_fm.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/move_gains.hpp"
#include "cleave/partition/kway/rebalance.hpp"
#include "cleave/partition/kway/sweep.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// Brings parts within their limits and lessens the cut. Returns by how much it fell; where balance costs
/// more than moves gain, that is negative.
template <class Level>
std::int64_t refine_level(Level const& g, level_parts& p, std::vector<std::uint32_t> const& fixed,
                          active_nodes& active, level_effort const& effort,
                          thread_team const& team = thread_team{}) {
  auto gained = rebalance(g, p, fixed, active);
  move_gains<Level> gains(g, p, fixed, team);
  gained += sweep_boundary(g, p, active, gains, effort.sweeps);
  if (effort.passes > 0) gained += kway_fm<Level>(g, p).refine(active, gains, effort.passes, effort.patience);
  return gained;
}

}  // namespace cleave::detail
