// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/csr.hpp"
#include "cleave/partition/model/part_graph.hpp"

namespace cleave {

/// In which order stages are emitted. Each policy puts a stage after those it receives from; they differ in
/// which of the stages that are ready comes next.
enum class order : std::uint8_t {
  program,   ///< the one whose first node comes first in the graph
  fifo,      ///< the one that has been ready longest
  upstream,  ///< the one that became ready last, as torch.fx's split_module has it: independent parts come
             ///< out reversed
  priority,  ///< the one with the least priority number; of equal ones, as `program`
};

}  // namespace cleave

namespace cleave::detail {

/// The parts in an order that each policy allows; shorter than there are parts if they need each other in a
/// cycle. `priority` is the number of each part; parts beyond it have the largest. O(parts log parts +
/// needs). Kahn, CACM 5(11), 1962.
inline std::vector<stage_id> emission_order(part_graph const& parts, order policy,
                                            std::span<std::uint32_t const> priority = {}) {
  auto const count = static_cast<std::uint32_t>(parts.first_node.size());
  std::vector<std::uint32_t> missing(count), by_appearance;
  for (auto const to : parts.dependents.item) ++missing[to];
  for (std::uint32_t i = 0; i < count; ++i) by_appearance.push_back(i);
  std::ranges::sort(by_appearance, {}, [&](auto part) { return std::pair(parts.first_node[part], part); });

  auto by_rank = by_appearance;
  auto const key = [&](std::uint32_t part) {
    auto const number = part < priority.size() ? priority[part] : none<std::uint32_t>;
    return std::pair(number, std::pair(parts.first_node[part], part));
  };
  if (policy == order::priority) std::ranges::sort(by_rank, {}, key);
  std::vector<std::size_t> rank(count);
  for (std::size_t i = 0; i < count; ++i) rank[by_rank[i]] = i;
  std::vector<std::pair<std::size_t, std::uint32_t>> ready;  // a heap of key and part, the smallest on top
  std::size_t arrivals = 0;
  auto const arrive = [&](std::uint32_t part) {
    ++arrivals;
    auto const turn = policy == order::upstream ? none<std::size_t> - arrivals
                      : policy == order::fifo   ? arrivals
                                                : rank[part];
    ready.emplace_back(turn, part);
    std::ranges::push_heap(ready, std::ranges::greater());
  };
  for (auto const part : by_appearance)
    if (missing[part] == 0) arrive(part);

  std::vector<stage_id> sorted;
  while (!ready.empty()) {
    std::ranges::pop_heap(ready, std::ranges::greater());
    auto const part = ready.back().second;
    ready.pop_back();
    sorted.push_back(stage_id{part});
    for (auto const to : parts.dependents[part])
      if (--missing[to] == 0) arrive(to);
  }
  return sorted;
}

}  // namespace cleave::detail
