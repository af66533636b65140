// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <vector>

#include "cleave/partition/groups/capability_units.hpp"

namespace cleave::detail {

/// Merges supported units into the fewest groups there can be, whether values connect them or not. The
/// supported units of the answer are the groups. O(V + E).
///
/// A unit's group is the most runs of supported units that a path to it has. Fewer there cannot be: two runs
/// of one path are never one group, since what parts them would lie both after and before it. And no cycle
/// closes, since along each edge the number does not fall, and from an unsupported unit to a supported one it
/// rises.
template <std::unsigned_integral Index>
capability_units<Index> fewest_groups(capability_units<Index> const& u) {
  std::vector<Index> runs(u.size()), first, group(u.size());  // `first`: of a group, a unit of it
  for (std::size_t i = 0; i < u.size(); ++i) {
    Index most = u.supported[i] ? 1 : 0;
    for (Index const need : u.needs[i]) {
      bool const begins = u.supported[i] && !u.supported[need];
      most = (std::max)(most, static_cast<Index>(runs[need] + (begins ? 1 : 0)));
    }
    runs[i] = most;
    group[i] = static_cast<Index>(i);
    if (!u.supported[i]) continue;
    if (most > first.size()) first.push_back(group[i]);
    group[i] = first[most - 1];
  }
  return contracted_units(u, group);
}

}  // namespace cleave::detail
