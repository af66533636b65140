// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/named/hierarchical_cut.hpp"

namespace cleave::detail {

/// The first number of the pieces of each opened call, by level and in step with its `opened`: pieces are
/// called after their number among those of their level, as Slapo calls them. Levels take numbers in the
/// order of the cuts that they hold; the first goes on where its own level begins. O(opened calls, and the
/// log).
inline std::vector<std::vector<std::uint32_t>> piece_numbers(hierarchical_cut const& cut) {
  auto const levels = cut.levels.size();
  std::vector<std::uint32_t> ends(levels);  // of a level: how many stages end in it
  std::vector<char> goes_on(levels);        // whether calls follow the last end
  for (std::size_t i = levels; i-- > 0;) {
    auto const& level = cut.levels[i];
    ends[i] = static_cast<std::uint32_t>(level.ends.size());
    auto const calls = level.graph->nodes();
    goes_on[i] = !calls.empty() && (level.ends.empty() || level.ends.back() != calls.back());
    for (auto const& [n, inside] : level.opened) {
      bool const ended = std::ranges::binary_search(level.ends, n);
      ends[i] += ended && !goes_on[inside] ? ends[inside] - 1 : ends[inside];
      if (n == calls.back() && !ended) goes_on[i] = goes_on[inside];
    }
  }
  std::vector<std::uint32_t> start(levels);
  std::vector<char> known(levels);
  std::vector<std::vector<std::uint32_t>> numbers(levels);
  for (std::size_t i = 0; i < levels; ++i) {
    auto const& opened = cut.levels[i].opened;
    std::vector<std::tuple<std::uint32_t, std::size_t, std::uint32_t>> in_order;
    for (std::size_t k = 0; k < opened.size(); ++k)
      in_order.emplace_back(cut.levels[opened[k].second].first_cut, k, opened[k].second);
    std::ranges::sort(in_order);
    numbers[i].resize(opened.size());
    std::uint32_t next = start[i];
    for (auto const& [first, k, inside] : in_order) {
      numbers[i][k] = next;
      if (!std::exchange(known[inside], 1)) start[inside] = next;
      next += ends[inside] + 1;
    }
  }
  return numbers;
}

}  // namespace cleave::detail
