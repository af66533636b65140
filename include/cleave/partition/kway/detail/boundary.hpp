// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/team.hpp"

namespace cleave::inline v0_2::detail {

/// The boundary nodes, which refinement visits: nodes with a neighbour in another part, and nodes that moves
/// have touched.
struct boundary_nodes {
  enum state : std::uint8_t { absent, listed, counted };  // counted: its gain in `gain_cache` is valid

  std::vector<std::uint32_t> list;
  std::vector<std::uint8_t> is;  ///< state of each node

  void add(std::uint32_t n) {
    if (is[n]) return;
    is[n] = listed;
    list.push_back(n);
  }
  /// Adds a node, or invalidates its cached gain.
  void touch(std::uint32_t n) {
    if (!is[n]) list.push_back(n);
    is[n] = listed;
  }
};

/// Returns an empty set for a graph of `nodes` nodes.
inline boundary_nodes no_boundary_nodes(std::uint32_t nodes) {
  return {{}, std::vector<std::uint8_t>(nodes)};
}

/// Returns true if a neighbour is in another part.
inline bool is_on_boundary(weighted_view const& g, std::vector<std::uint32_t> const& of, std::uint32_t n) {
  for (auto e = g.offsets[n], stop = g.offsets[n + 1]; e < stop; ++e)
    if (of[g.targets[e]] != of[n]) return true;
  return false;
}

/// Returns the boundary nodes that satisfy `may_be(n)`. O(n + m).
template <class MayBe>
boundary_nodes boundary_of(weighted_view const& g, std::vector<std::uint32_t> const& of,
                           thread_team const& team, MayBe const& may_be) {
  auto active = no_boundary_nodes(g.nodes);
  id_ranges const ranges{g.nodes, 1u << 14};
  std::vector<std::vector<std::uint32_t>> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (!may_be(n) || !is_on_boundary(g, of, n)) continue;
      found[r].push_back(n);
      active.is[n] = boundary_nodes::listed;
    }
  });
  for (auto const& nodes : found) active.list.insert(active.list.end(), nodes.begin(), nodes.end());
  return active;
}

inline boundary_nodes boundary_of(weighted_view const& g, std::vector<std::uint32_t> const& of,
                                  thread_team const& team) {
  return boundary_of(g, of, team, [](std::uint32_t) { return true; });
}

/// Returns the weight of the edges between parts. O(n + m).
inline std::int64_t cut_of(weighted_view const& g, std::vector<std::uint32_t> const& of) {
  std::int64_t twice = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n)
    for (auto a = g.offsets[n], stop = g.offsets[n + 1]; a < stop; ++a)
      if (of[n] != of[g.targets[a]]) twice += g.edge_weight(a);
  return twice / 2;
}

}  // namespace cleave::detail
