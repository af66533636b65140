// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/formats/graph_files/text_cursor.hpp"

namespace cleave::detail {

/// Checks what a file of edges says of its size before anything is allocated by it. Nodes without edges take
/// no bytes there; sixteen for each byte of the file and a million besides are believed.
template <std::integral Index>
void check_stated_nodes(text_cursor const& c, char const* at, std::uint64_t nodes, std::size_t bytes) {
  if (nodes / 16 > bytes + (std::size_t{1} << 16))
    c.fail_at(at, std::to_string(nodes) + " nodes in a file of " + std::to_string(bytes) +
                      " bytes; nodes are numbered without gaps");
  if (nodes >= static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()))
    c.fail_at(at, std::to_string(nodes) + " nodes are more than indices of " +
                      std::to_string(8 * sizeof(Index)) + " bits can number; read the file with 64 bits");
}

/// Each line of an edge takes `least` bytes or more.
template <std::integral Index>
void check_stated_edges(text_cursor const& c, char const* at, std::uint64_t edges, std::size_t least = 4) {
  if (edges > (c.left() + 1) / least)
    c.fail_at(at, std::to_string(edges) + " edges are stated, and there are but " + std::to_string(c.left()) +
                      " bytes below");
  if (edges > static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()) / 2)
    c.fail_at(at, "the ends of " + std::to_string(edges) + " edges are more than indices of " +
                      std::to_string(8 * sizeof(Index)) + " bits can number; read the file with 64 bits");
}

/// A format has no place for the weights of nodes.
inline void demand_no_node_weights(bool has_them, char const* format) {
  if (has_them)
    throw error(std::string(format) + " has no place for the weights of nodes; write METIS' format (.graph)");
}

}  // namespace cleave::detail
