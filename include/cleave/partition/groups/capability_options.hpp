// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/snapshot_arrays.hpp"
#include "cleave/partition/groups/fusion_group.hpp"

namespace cleave::inline v0_2 {

/// Methods to group supported nodes.
enum class grouping : std::uint8_t {
  fewest,      ///< as few groups as possible; with `fusion::connected`: no two of them can be merged
  merge_walk,  ///< the walk of torch.fx 2.15: as many groups, other nodes in each, quadratic time
};

/// Options of `capability_groups`. Nodes are positions in `nodes()`. Arrays with an entry per node may be
/// empty if there is nothing to specify.
struct capability_options {
  grouping by = grouping::fewest;
  fusion along = fusion::horizontal;
  std::vector<std::vector<std::size_t>> together{};  ///< sets of nodes that must be in one group or in none
  std::vector<char> projection{};                    ///< nonzero for nodes that take one result of several
  std::vector<std::uint32_t> size{};                 ///< per node: its size; empty: 1 each
  std::size_t least = 0;                             ///< groups of a smaller size are dropped
  std::size_t effort = 10'000;  ///< edges examined before a merge of `fusion::connected` is given up
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns a sentence about the first option that does not fit `s`, if any. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(capability_options const& o,
                                             basic_snapshot_arrays<Index> const& s) {
  auto const count = [](std::size_t n) { return std::to_string(n); };
  for (auto const& [what, entries] : {std::pair("projection", o.projection.size()), {"size", o.size.size()}})
    if (entries != 0 && entries != s.nodes())
      return std::string(what) + " has " + count(entries) + " entries, but the graph has " +
             count(s.nodes()) + " nodes";
  for (auto const& set : o.together)
    for (auto const n : set)
      if (n >= s.nodes())
        return "`together` names node #" + count(n) + ", but the graph has only " + count(s.nodes()) +
               " nodes";
  return std::nullopt;
}

}  // namespace cleave::detail
