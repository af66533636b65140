// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/effort.hpp"
#include "cleave/partition/kway/jet.hpp"
#include "cleave/partition/kway/options.hpp"
#include "cleave/partition/kway/probe.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// What is worth its time where a small cut matters more.
struct quality_effort {
  level_effort standard;             ///< of the first trial, and of levels made within parts
  std::vector<level_effort> trials;  ///< of the further ones, each combined with the best so far
  std::uint32_t jet_nodes = 60'000;  ///< of levels on which moves without limits are tried
  jet_options jet{};
  std::uint32_t flow_nodes = ~0u;  ///< of the largest level on which combined parts are refined by flows
  std::uint32_t strip_rounds = 2;  ///< of flows in wide strips, at the end
  double strip_share = 1;          ///< nodes of such strips times steps across them, of all nodes
  std::uint32_t swap_rounds = 0;   ///< of swaps, and moves after each, at the end
};

/// The work that the best preset means for a graph.
template <class Level>
quality_effort quality_effort_of(Level const& g, std::uint32_t parts,
                                 thread_team const& team = thread_team{}) {
  quality_effort e;
  e.standard = effort_of(kway_preset::quality, g, parts, team);
  auto const probe = probe_degrees(g, team);
  bool const local = !lacks_locality(g, probe);
  if (!local && has_sparse_periphery(g, probe)) {
    e.strip_rounds = 0, e.swap_rounds = 4;
    return e;
  }
  if (probe.skewed()) {
    e.trials = {e.standard, e.standard};
    e.flow_nodes = 60'000, e.strip_rounds = 0;
    return e;
  }
  if (parts == 2) {
    e.strip_share = 0.5;
    if (!probe.regular() && probe.mean > 8 && closed_wedges(g) > 0.25) {
      e.trials = {e.standard};
      e.trials[0].shrink = 4;  // there are few good cuts, and clusters of one size may miss them all
    }
    return e;
  }
  if (probe.dense_mesh() && parts <= 8) return e;  // straight cuts, which all trials find
  e.trials = {e.standard};
  e.trials[0].bisection.first_share = 1. / 3;  // parts in rows of unlike lengths, which may cut less
  if (probe.dense_mesh() || !local) return e;
  e.trials[0].first = first_method::bisections;
  auto other = e.standard;
  if (probe.regular() && probe.mean > 5) {  // grids in space
    other.clusters = coarsening::labels, other.tie = cluster_tie::lighter;
    e.trials.push_back(other);
  } else if (!probe.regular() && suits_centres(g, parts)) {
    other.first = other.first == first_method::centres ? first_method::bisections : first_method::centres;
    e.trials.push_back(other);
  }
  return e;
}

}  // namespace cleave::detail
