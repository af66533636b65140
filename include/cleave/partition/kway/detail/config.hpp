// SPDX-License-Identifier: MIT
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// How hard a small graph is tried to be cut in two.
struct bisection_config {
  std::uint32_t restarts = 1;        ///< hierarchies, each with other random numbers
  std::uint32_t least_restarts = 1;  ///< of the smallest pieces: half as many as before after each bisection
  std::uint32_t arcs = 1u << 22;     ///< in all restarts of a bisection; those of dense graphs end alike
  std::uint32_t growths = 3;         ///< first bisections of the smallest graph of each
  std::uint32_t passes = 4;          ///< of refinement a level
  std::uint32_t max_fruitless_moves = 200;  ///< moves downhill before a pass ends
  std::uint32_t smallest = 50;              ///< nodes below which a graph is no longer contracted
  double first_share = 0.5;                 ///< of the parts of a piece, that are in its first half
};

/// How the smallest level is cut: in two, and the halves again, or into round parts at once.
enum class first_method : std::uint8_t { bisections, centres };

/// How nodes are clustered before a level is contracted.
enum class coarsening : std::uint8_t { labels, matching };

/// Which of two clusters that it is tied to alike a node joins: heavier ones make fewer levels, lighter ones
/// more even clusters.
enum class tie_breaking : std::uint8_t { lighter, heavier };

/// How much work a k-way partition gets.
struct kway_config {
  coarsening clusters = coarsening::labels;
  std::uint32_t match_rounds = 2;  ///< before one contraction: clusters of up to 2^rounds nodes
  std::uint32_t label_rounds = 1;  ///< of label propagation before one contraction
  tie_breaking ties = tie_breaking::lighter;
  std::uint32_t shrink = 8;               ///< a cluster weighs at most so many average nodes
  std::uint32_t least_nodes = 2000;       ///< of the smallest level, at least
  std::uint32_t nodes_a_part = 20;        ///< of the smallest level, for each part
  std::uint32_t label_refine_rounds = 2;  ///< over the boundary, a level
  std::uint32_t passes = 1;               ///< of moves with hill climbing, a level
  std::size_t max_fruitless_moves = 100;  ///< moves downhill before a pass ends
  std::uint32_t flow_rounds = 0;          ///< of least cuts between pairs of parts, a level
  std::uint32_t flow_steps = 3;           ///< how far from the boundary these look
  std::uint32_t flow_nodes = ~0u;         ///< of the largest level that gets them
  first_method first = first_method::bisections;
  bisection_config bisection{};
};

/// How far moves without limits go.
struct jet_options {
  std::array<double, 3> gain_temperature{0.75, 0.35,
                                         0};   ///< of its ties to its part a node may lose, round by round
  std::uint32_t max_fruitless_iterations = 8;  ///< steps without a smaller cut before a round ends
};

/// What is worth its time where a small cut matters more.
struct quality_config {
  kway_config standard;              ///< of the first trial, and of levels made within parts
  std::vector<kway_config> trials;   ///< of the further ones, each combined with the best so far
  std::uint32_t jet_nodes = 60'000;  ///< of levels on which moves without limits are tried
  jet_options jet{};
  std::uint32_t flow_nodes = ~0u;  ///< of the largest level on which combined parts are refined by flows
  std::uint32_t strip_rounds = 2;  ///< of flows in wide strips, at the end
  double strip_share = 1;          ///< nodes of such strips times steps across them, of all nodes
  std::uint32_t swap_rounds = 0;   ///< of swaps, and moves after each, at the end
};

}  // namespace cleave::detail
