// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cleave/partition/kway/raw_array.hpp"

namespace cleave {

/// Whether nodes and edges have weights of their own, or weigh 1 each.
enum class weighing { unit, given };

/// One level of a k-way partition: an undirected graph in compressed rows, with neither loops nor negative
/// weights. The sum of all weights of arcs, and that of nodes, fits 63 bits.
template <weighing Weighing>
struct level_view {
  /// Holds sums of weights: 32 bits do where each is 1.
  using sum_type = std::conditional_t<Weighing == weighing::unit, std::uint32_t, std::int64_t>;
  std::uint32_t nodes = 0;
  std::uint32_t const* first = nullptr;        ///< where the row of a node begins; nodes + 1 of them
  std::uint32_t const* head = nullptr;         ///< the neighbours
  std::int64_t const* node_weights = nullptr;  ///< null where `unit`
  std::int64_t const* arc_weights = nullptr;   ///< beside `head`; null where `unit`

  std::uint32_t arcs() const { return first[nodes]; }
  std::uint32_t degree(std::uint32_t n) const { return first[n + 1] - first[n]; }
  std::int64_t weight(std::uint32_t n) const {
    if constexpr (Weighing == weighing::unit)
      return 1;
    else
      return node_weights[n];
  }
  std::int64_t arc_weight(std::uint32_t arc) const {
    if constexpr (Weighing == weighing::unit)
      return 1;
    else
      return arc_weights[arc];
  }
};

using weighted_view = level_view<weighing::given>;

/// A level that owns its arrays: what contraction makes of the level below.
struct level_graph {
  std::uint32_t nodes = 0;
  raw_array<std::uint32_t> first;
  raw_array<std::uint32_t> head;
  raw_array<std::int64_t> node_weights;
  raw_array<std::int64_t> arc_weights;

  weighted_view view() const {
    return {nodes, first.data(), head.data(), node_weights.data(), arc_weights.data()};
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

}  // namespace cleave
