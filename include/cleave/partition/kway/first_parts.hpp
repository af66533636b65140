// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/repeated_bisection.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave {

/// Parts of the smallest level, by bisections.
inline level_parts first_parts(weighted_view const& g, std::vector<std::uint32_t> const& fixed,
                               std::vector<std::int64_t> const& limit, bisection_effort const& effort,
                               thread_team const& team, splitmix& random) {
  level_parts p;
  p.limit = limit;
  p.of = repeated_bisection(g, fixed, limit, effort, team).parts(random);
  p.weight.assign(limit.size(), 0);
  for (std::uint32_t n = 0; n < g.nodes; ++n) p.weight[p.of[n]] += g.weight(n);
  return p;
}

}  // namespace cleave
