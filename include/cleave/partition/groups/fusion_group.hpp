// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave {

/// Nodes that are to become one piece, by their positions.
struct fusion_group {
  std::size_t id;  ///< a number of its own, which it keeps where others are dropped
  std::vector<std::size_t> nodes;

  bool operator==(fusion_group const&) const = default;
};

/// Which nodes may share a group: any, or those that values connect within it.
enum class fusion : std::uint8_t { horizontal, connected };

/// The partition in which each group is a part, in their order, and each other node one of its own. The
/// groups share no node. O(V).
inline partition partition_of(std::span<fusion_group const> groups, std::size_t nodes) {
  partition p{std::vector<part_id>(nodes, no_part), 0};
  for (auto const& g : groups) {
    for (auto const n : g.nodes) p.of[n] = part_id{p.parts};
    ++p.parts;
  }
  for (auto& part : p.of)
    if (part == no_part) part = part_id{p.parts++};
  return p;
}
}  // namespace cleave
