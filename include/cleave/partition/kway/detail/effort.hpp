// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// How hard a small graph is tried to be cut in two.
struct bisection_effort {
  std::uint32_t restarts = 1;        ///< hierarchies, each with other random numbers
  std::uint32_t least_restarts = 1;  ///< of the smallest pieces: half as many as before after each bisection
  std::uint32_t arcs = 1u << 22;     ///< in all restarts of a bisection; those of dense graphs end alike
  std::uint32_t growths = 3;         ///< first bisections of the smallest graph of each
  std::uint32_t passes = 4;          ///< of refinement a level
  std::uint32_t patience = 200;      ///< moves downhill before a pass ends
  std::uint32_t smallest = 50;       ///< nodes below which a graph is no longer contracted
  double first_share = 0.5;          ///< of the parts of a piece, that are in its first half
};

/// How the smallest level is cut: in two, and the halves again, or into round parts at once.
enum class first_method : std::uint8_t { bisections, centres };

/// How nodes are clustered before a level is contracted.
enum class coarsening : std::uint8_t { labels, matching };

/// Which of two clusters that it is tied to alike a node joins: heavier ones make fewer levels, lighter ones
/// more even clusters.
enum class cluster_tie : std::uint8_t { lighter, heavier };

/// How much work a k-way partition gets.
struct level_effort {
  coarsening clusters = coarsening::labels;
  std::uint32_t match_rounds = 2;  ///< before one contraction: clusters of up to 2^rounds nodes
  std::uint32_t label_rounds = 1;  ///< of label propagation before one contraction
  cluster_tie tie = cluster_tie::lighter;
  std::uint32_t shrink = 8;          ///< a cluster weighs at most so many average nodes
  std::uint32_t least_nodes = 2000;  ///< of the smallest level, at least
  std::uint32_t nodes_a_part = 20;   ///< of the smallest level, for each part
  std::uint32_t sweeps = 2;          ///< over the boundary, a level
  std::uint32_t passes = 1;          ///< of moves with hill climbing, a level
  std::size_t patience = 100;        ///< moves downhill before a pass ends
  std::uint32_t flow_rounds = 0;     ///< of least cuts between pairs of parts, a level
  std::uint32_t flow_steps = 3;      ///< how far from the boundary these look
  std::uint32_t flow_nodes = ~0u;    ///< of the largest level that gets them
  first_method first = first_method::bisections;
  bisection_effort bisection{};
};

}  // namespace cleave::detail
