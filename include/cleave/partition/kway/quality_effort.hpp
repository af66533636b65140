// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/flow_refinement.hpp"
#include "cleave/partition/kway/jet.hpp"
#include "cleave/partition/kway/probe.hpp"

namespace cleave {

/// Whether some nodes have many times more edges than others.
enum class degree_spread { narrow, wide };

/// What is worth its time where a small cut matters more.
struct quality_effort {
  level_effort matched, labelled;  ///< of the two ways to coarsen
  degree_spread degrees = degree_spread::narrow;
  std::uint32_t tries = 5;            ///< first partitions, for each way to coarsen
  std::uint32_t trial_nodes = 4000;   ///< of the level on which the best of them is chosen, about
  std::uint32_t jet_nodes = 60'000;   ///< of levels on which moves without limits are tried
  std::uint32_t fine_nodes = 60'000;  ///< of levels from which on strips for flows are narrow
  flow_options coarse{.width = {.steps = 8}, .rounds = 4};
  flow_options fine{.width = {.steps = 3}, .rounds = 3};
  jet_options jet{};
  std::uint32_t cycles = 0;  ///< times that the whole is coarsened within the parts and refined again
};

/// The work that the best preset means for a graph.
template <class Level>
quality_effort quality_effort_of(Level const& g) {
  quality_effort e;
  auto const probe = probe_degrees(g);
  level_effort level;
  level.bisection.restarts = 8;
  level.bisection.least_restarts = 4;
  e.matched = e.labelled = level;
  e.matched.clusters = coarsening::matching;
  e.labelled.clusters = coarsening::labels;
  if (g.nodes < 5000) e.tries = 2, e.matched.bisection.least_restarts = 1;
  if (probe.mean > 12) e.coarse.width.steps = 3;
  if (probe.mean > 12 || probe.spread() > 0.5) e.fine.width.steps = 2;
  if (probe.spread() > 2) {
    e.degrees = degree_spread::wide;
    e.matched.bisection.restarts = 32;
    e.tries = 4;
    e.fine_nodes = 30'000, e.fine.rounds = 0;
  }
  return e;
}

}  // namespace cleave
