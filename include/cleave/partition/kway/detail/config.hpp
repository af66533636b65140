// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// Effort spent on one bisection of a small graph.
struct bisection_config {
  std::uint32_t restarts = 1;        ///< multilevel hierarchies, each built from different random numbers
  std::uint32_t least_restarts = 1;  ///< lower bound of `restarts`, which halves after each level of
                                     ///< bisections
  std::uint32_t arcs = 1u << 22;     ///< bound on the directed edges read in all restarts of a bisection;
                                     ///< restarts on dense graphs give similar cuts
  std::uint32_t growths = 3;         ///< initial bisections of the coarsest graph of each hierarchy
  std::uint32_t passes = 2;          ///< FM passes per level
  std::uint32_t max_fruitless_moves = 60;  ///< moves without improvement before a pass ends
  std::uint32_t smallest = 50;             ///< coarsening stops at this many nodes
  double first_share = 0.5;                ///< fraction of the parts that go to the first half
};

/// Options of Jet refinement, which ignores weight limits while it moves nodes.
struct jet_options {
  std::vector<double> gain_temperatures{0.75, 0.35, 0};  ///< a node may lose less than this fraction of its
                                                         ///< connectivity to its part; one value per round
  std::uint32_t max_fruitless_iterations = 4;            ///< steps without a smaller cut before a round ends
  double least_gain = 0.001;  ///< a smaller decrease, as a fraction of the cut, counts as none
};

/// Effort of a multilevel k-way partitioner.
struct kway_config {
  std::uint32_t label_rounds = 1;         ///< sweeps of label propagation before a contraction
  std::uint32_t shrink = 8;               ///< largest cluster weight, in average node weights of the level
  std::uint32_t least_nodes = 2000;       ///< coarsening stops at this many nodes, at least
  std::uint32_t nodes_a_part = 20;        ///< and at this many nodes per part
  std::uint32_t label_refine_rounds = 2;  ///< label propagation sweeps over the boundary of each level
  std::uint32_t passes = 1;               ///< k-way FM passes per level
  std::size_t max_fruitless_moves = 100;  ///< moves without improvement before an FM pass ends
  jet_options jet{};
  std::uint32_t flow_rounds = 0;  ///< rounds of flow refinement between pairs of parts, per level
  std::uint32_t flow_steps = 3;   ///< width of the flow region, in steps from the boundary
  bool grow_parts = true;         ///< parts grown from centres compete with recursive bisection
  /// Directed edges that all restarts of a bisection read, relative to those of the graph, counted as 2^16 at
  /// least; at most 2^22.
  double bisection_work = 2;
  bisection_config bisection{};
};

/// Effort of the preset `quality`.
struct quality_config {
  kway_config standard;             ///< of the first trial, and of the levels built within its parts
  std::vector<kway_config> trials;  ///< of the further trials, each combined with the best partition so far
  std::uint32_t strip_rounds = 2;   ///< rounds of flow refinement with wide regions, at the end
  double strip_share = 1;           ///< bound on their width: boundary nodes * steps^2 is at most this
                                    ///< fraction of all nodes
  std::uint32_t swap_rounds = 2;    ///< rounds of swaps, each after moves, at the end
};

}  // namespace cleave::detail
