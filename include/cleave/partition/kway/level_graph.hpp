// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_weights.hpp"
#include "cleave/partition/kway/raw_array.hpp"

namespace cleave::detail {

/// One level of a k-way partition: an undirected graph in compressed rows, with neither loops nor negative
/// weights. The sum of all weights of arcs, and that of nodes, fits 63 bits.
struct weighted_view {
  std::uint32_t nodes = 0;
  std::uint32_t const* first = nullptr;  ///< where the row of a node begins; nodes + 1 of them
  std::uint32_t const* head = nullptr;   ///< the neighbours
  weights_view node_weights;
  weights_view arc_weights;  ///< beside `head`

  std::uint32_t arcs() const { return first[nodes]; }
  std::uint32_t degree(std::uint32_t n) const { return first[n + 1] - first[n]; }
  std::int64_t weight(std::uint32_t n) const { return node_weights[n]; }
  std::int64_t arc_weight(std::uint32_t arc) const { return arc_weights[arc]; }
  /// What sums of weights of this level fit in.
  weight_width width() const {
    bool const wide = node_weights.width() == weight_width::wide || arc_weights.width() == weight_width::wide;
    return wide ? weight_width::wide : weight_width::narrow;
  }
};

/// A level that owns its arrays: what contraction makes of the level below.
struct level_graph {
  std::uint32_t nodes = 0;
  raw_array<std::uint32_t> first;
  raw_array<std::uint32_t> head;
  level_weights node_weights;
  level_weights arc_weights;

  weighted_view view() const {
    return {nodes, first.data(), head.data(), node_weights.view(), arc_weights.view()};
  }
};

/// Which part each node of a level is in, what the parts weigh and may weigh.
struct level_parts {
  std::vector<std::uint32_t> of;     ///< the part of a node
  std::vector<std::int64_t> weight;  ///< of a part; what was put aside (isolated nodes) is not in it
  std::vector<std::int64_t> limit;   ///< of a part: the most it may weigh
  std::uint32_t parts() const { return static_cast<std::uint32_t>(limit.size()); }
  std::int64_t room(std::uint32_t part) const { return limit[part] - weight[part]; }
};

/// The part a node must be in: `free_node`, or a part.
inline constexpr std::uint32_t free_node = 0xffffffff;

}  // namespace cleave::detail
