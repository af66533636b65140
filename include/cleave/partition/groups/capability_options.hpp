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

namespace cleave {

/// How supported nodes are put into groups.
enum class grouping : std::uint8_t {
  fewest,      ///< as few as there can be; among `fusion::connected` ones, so few that no two can be merged
  merge_walk,  ///< as torch.fx 2.15 walks: the same number, other nodes in each, in quadratic time
};

/// What `capability_groups` must respect. Nodes are positions in `nodes()`; arrays by node are empty where
/// nothing is said.
struct capability_options {
  grouping by = grouping::fewest;
  fusion along = fusion::horizontal;
  std::vector<std::vector<std::size_t>> together{};  ///< sets that are in one group or in none
  std::vector<char> projection{};     ///< of a node: it takes one result out of the several of its operand
  std::vector<std::uint32_t> size{};  ///< of a node: how much it counts; 1 where nothing is said
  std::size_t least = 0;              ///< groups that count less are dropped
  std::size_t effort = 10'000;        ///< edges looked at before a merge of `fusion::connected` is given up
};

}  // namespace cleave

namespace cleave::detail {

/// The first thing in options that makes no sense for `s`, as a sentence, or nothing. O(V).
template <std::unsigned_integral Index>
std::optional<std::string> find_option_fault(capability_options const& o,
                                             basic_snapshot_arrays<Index> const& s) {
  auto const count = [](std::size_t n) { return std::to_string(n); };
  for (auto const& [what, entries] : {std::pair("projection", o.projection.size()), {"size", o.size.size()}})
    if (entries != 0 && entries != s.nodes())
      return std::string(what) + " has " + count(entries) + " entries, the graph " + count(s.nodes()) +
             " nodes";
  for (auto const& set : o.together)
    for (auto const n : set)
      if (n >= s.nodes())
        return "`together` names node #" + count(n) + ", and the graph has " + count(s.nodes()) + " nodes";
  return std::nullopt;
}

}  // namespace cleave::detail
