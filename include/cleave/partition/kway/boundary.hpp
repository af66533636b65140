// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/clusters.hpp"
#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"

namespace cleave::detail {

/// The nodes that refinement looks at: those with a neighbour in another part, and those that moves made
/// such.
struct active_nodes {
  enum state : std::uint8_t { absent, listed, counted };  // the last: and its gain is known, see `move_gains`

  std::vector<std::uint32_t> list;
  std::vector<std::uint8_t> is;  ///< in the list

  void add(std::uint32_t n) {
    if (is[n]) return;
    is[n] = listed;
    list.push_back(n);
  }
  /// Adds a node, or has what it would gain counted anew.
  void touch(std::uint32_t n) {
    if (!is[n]) list.push_back(n);
    is[n] = listed;
  }
};

/// None yet, of so many nodes.
inline active_nodes no_active_nodes(std::uint32_t nodes) { return {{}, std::vector<std::uint8_t>(nodes)}; }

/// Whether a neighbour is in another part.
template <class Level>
bool is_on_boundary(Level const& g, std::vector<std::uint32_t> const& of, std::uint32_t n) {
  for (auto arc = g.first[n], stop = g.first[n + 1]; arc < stop; ++arc)
    if (of[g.head[arc]] != of[n]) return true;
  return false;
}

/// Those nodes with a neighbour in another part for which `may_be(n)`. O(n + m).
template <class Level, class MayBe>
active_nodes boundary_of(Level const& g, std::vector<std::uint32_t> const& of, thread_team const& team,
                         MayBe const& may_be) {
  auto active = no_active_nodes(g.nodes);
  id_ranges const ranges{g.nodes, 1u << 14};
  std::vector<std::vector<std::uint32_t>> found(ranges.count());
  team.share(ranges.count(), [&](std::size_t r) {
    for (auto n = ranges.begin(r); n < ranges.end(r); ++n) {
      if (!may_be(n) || !is_on_boundary(g, of, n)) continue;
      found[r].push_back(n);
      active.is[n] = active_nodes::listed;
    }
  });
  for (auto const& nodes : found) active.list.insert(active.list.end(), nodes.begin(), nodes.end());
  return active;
}

template <class Level>
active_nodes boundary_of(Level const& g, std::vector<std::uint32_t> const& of, thread_team const& team) {
  return boundary_of(g, of, team, [](std::uint32_t) { return true; });
}

/// The weight of the edges between parts. O(n + m).
template <class Level>
std::int64_t cut_of(Level const& g, std::vector<std::uint32_t> const& of) {
  std::int64_t twice = 0;
  for (std::uint32_t n = 0; n < g.nodes; ++n)
    for (auto a = g.first[n], stop = g.first[n + 1]; a < stop; ++a)
      if (of[n] != of[g.head[a]]) twice += g.arc_weight(a);
  return twice / 2;
}

}  // namespace cleave::detail
