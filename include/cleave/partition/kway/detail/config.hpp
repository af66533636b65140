// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Effort spent on one bisection of a small graph.
struct bisection_config {
  std::uint32_t restarts = 1;        ///< multilevel hierarchies, each built from different random numbers
  std::uint32_t least_restarts = 1;  ///< lower bound of `restarts`, which halves after each level of
                                     ///< bisections
  std::uint32_t arcs = 1u << 22;     ///< bound on the directed edges read in all restarts of a bisection;
                                     ///< restarts on dense graphs give similar cuts
  std::uint32_t growths = 3;         ///< initial bisections of the coarsest graph of each hierarchy
  std::uint32_t passes = 4;          ///< FM passes per level
  std::uint32_t max_fruitless_moves = 200;  ///< moves without improvement before a pass ends
  std::uint32_t smallest = 50;              ///< coarsening stops at this many nodes
  double first_share = 0.5;                 ///< fraction of the parts that go to the first half
};

/// The method that partitions the coarsest level: recursive bisection, or compact parts grown from centres.
enum class first_method : std::uint8_t { bisections, centres };

/// The method that clusters nodes before a contraction: label propagation or heavy-edge matching.
enum class coarsening : std::uint8_t { labels, matching };

/// The cluster that a node joins if it is equally connected to two. Heavier clusters give fewer levels;
/// lighter ones give more even clusters.
enum class tie_breaking : std::uint8_t { lighter, heavier };

/// Effort of a multilevel k-way partitioner.
struct kway_config {
  coarsening clusters = coarsening::labels;
  std::uint32_t match_rounds = 2;  ///< matchings before a contraction: clusters of up to 2^rounds nodes
  std::uint32_t label_rounds = 1;  ///< sweeps of label propagation before a contraction
  tie_breaking ties = tie_breaking::lighter;
  std::uint32_t shrink = 8;               ///< largest cluster weight, in average node weights of the level
  std::uint32_t least_nodes = 2000;       ///< coarsening stops at this many nodes, at least
  std::uint32_t nodes_a_part = 20;        ///< and at this many nodes per part
  std::uint32_t label_refine_rounds = 2;  ///< label propagation sweeps over the boundary of each level
  std::uint32_t passes = 1;               ///< k-way FM passes per level
  std::size_t max_fruitless_moves = 100;  ///< moves without improvement before an FM pass ends
  std::uint32_t flow_rounds = 0;          ///< rounds of flow refinement between pairs of parts, per level
  std::uint32_t flow_steps = 3;           ///< width of the flow region, in steps from the boundary
  std::uint32_t flow_nodes = ~0u;         ///< levels with more nodes get no flow refinement
  first_method first = first_method::bisections;
  bisection_config bisection{};
};

/// Options of Jet refinement, which ignores weight limits while it moves nodes.
struct jet_options {
  std::array<double, 3> gain_temperature{0.75, 0.35, 0};  ///< a node may lose less than this fraction of its
                                                          ///< connectivity to its part; one value per round
  std::uint32_t max_fruitless_iterations = 8;             ///< steps without a smaller cut before a round ends
};

/// Effort of the preset `quality`.
struct quality_config {
  kway_config standard;              ///< of the first trial, and of the levels built within its parts
  std::vector<kway_config> trials;   ///< of the further trials, each combined with the best partition so far
  std::uint32_t jet_nodes = 60'000;  ///< larger levels get no Jet refinement
  jet_options jet{};
  std::uint32_t flow_nodes = ~0u;  ///< larger levels get no flow refinement when partitions are combined
  std::uint32_t strip_rounds = 2;  ///< rounds of flow refinement with wide regions, at the end
  double strip_share = 1;          ///< bound on their width: boundary nodes * steps^2 is at most this
                                   ///< fraction of all nodes
  std::uint32_t swap_rounds = 0;   ///< rounds of swaps, each after moves, at the end
};

}  // namespace cleave::detail
