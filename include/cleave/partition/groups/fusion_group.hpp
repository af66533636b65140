// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::inline v0_2 {

/// Nodes to be fused into one piece, given by their positions.
struct fusion_group {
  std::size_t id;  ///< unique id, which stays the same when other groups are dropped
  std::vector<std::size_t> nodes;

  bool operator==(fusion_group const&) const = default;
};

/// Nodes that may share a group: any nodes, or only nodes that values connect within the group.
enum class fusion : std::uint8_t { horizontal, connected };

/// Returns the partition whose first parts are the groups, in order. Each other node becomes a part of its
/// own. The groups must be disjoint. O(V).
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
