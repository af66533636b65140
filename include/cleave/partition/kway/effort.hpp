// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

namespace cleave {

/// How hard a small graph is tried to be cut in two.
struct bisection_effort {
  std::uint32_t restarts = 1;    ///< hierarchies, each with other random numbers
  std::uint32_t growths = 6;     ///< first bisections of the smallest graph of each
  std::uint32_t passes = 4;      ///< of refinement a level
  std::uint32_t patience = 200;  ///< moves downhill before a pass ends
  std::uint32_t smallest = 120;  ///< nodes below which a graph is no longer contracted
};

/// How nodes are clustered before a level is contracted.
enum class coarsening { by_the_graph, matching, labels };

/// How much work a k-way partition gets.
struct level_effort {
  coarsening clusters = coarsening::by_the_graph;
  std::uint32_t match_rounds = 2;    ///< before one contraction: clusters of 2^rounds nodes
  std::uint32_t label_rounds = 2;    ///< of label propagation before one contraction
  std::uint32_t least_nodes = 2000;  ///< of the smallest level, at least
  std::uint32_t nodes_a_part = 20;   ///< of the smallest level, for each part
  std::uint32_t sweeps = 2;          ///< over the boundary, a level
  std::uint32_t passes = 1;          ///< of moves with hill climbing, a level
  std::size_t patience = 100;        ///< moves downhill before a pass ends
  bisection_effort bisection{};
};

}  // namespace cleave
