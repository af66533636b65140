// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/options.hpp"

namespace cleave {

/// How alike the degrees of a graph are.
struct degree_probe {
  double mean = 0, variance = 0;  ///< of nodes that have edges

  /// Of the standard deviation to the mean, squared: 0.08 for a random geometric graph, from 1 up for power
  /// laws.
  double spread() const { return mean > 0 ? variance / (mean * mean) : 0; }
};

template <class Level>
degree_probe probe_degrees(Level const& g) {
  double sum = 0, squares = 0, nodes = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    auto const d = static_cast<double>(g.degree(n));
    sum += d, squares += d * d, nodes += d > 0;
  }
  degree_probe probe;
  if (nodes == 0) return probe;
  probe.mean = sum / nodes;
  probe.variance = squares / nodes - probe.mean * probe.mean;
  return probe;
}

/// The work that a preset means for a graph.
template <class Level>
level_effort effort_of(kway_preset preset, Level const& g) {
  level_effort e;
  auto const probe = probe_degrees(g);
  if (e.clusters == coarsening::by_the_graph)
    e.clusters = probe.spread() < 0.03 && probe.mean > 10 ? coarsening::matching : coarsening::labels;
  if (preset != kway_preset::fast) {
    e.passes = 3;
    e.patience = 400;
    e.bisection.restarts = 3;
    e.nodes_a_part = 40;
  }
  return e;
}

}  // namespace cleave
