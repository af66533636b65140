// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/schedule/search/unit_row.hpp"

namespace cleave {

/// Where a row is cut: stage s has the units from place s to place s + 1.
using row_cut = std::vector<std::uint32_t>;

}  // namespace cleave

namespace cleave::detail {

/// What a stage of the units between two places computes for a microbatch, forward and back.
inline double pass_time_between(unit_row const& row, std::size_t from, std::size_t to) {
  auto const c = cost_between(row.cost[from], row.cost[to]);
  return c.forward + c.backward;
}

/// The cut into so many stages, none empty, whose slowest stage is fastest; what it sends and keeps does not
/// count. O(stages * units * log units). Precondition: nothing is wrong with the row for so many stages.
inline row_cut bottleneck_cut(unit_row const& row, std::uint32_t stages) {
  auto const n = row.units();
  std::vector<double> slowest(n + 1, std::numeric_limits<double>::infinity());
  std::vector<std::vector<std::uint32_t>> begin(stages + std::size_t{1}, std::vector<std::uint32_t>(n + 1));
  slowest[0] = 0;
  for (std::uint32_t s = 1; s <= stages; ++s) {
    auto const before = slowest;
    std::ranges::fill(slowest, std::numeric_limits<double>::infinity());
    for (std::size_t end = s; end <= n; ++end) {
      // With a later begin the stages before are no faster, and this one no slower: the best is where they
      // meet.
      std::size_t low = s - 1, high = end - 1;
      if (s == 1) high = 0;
      while (low < high) {
        auto const middle = (low + high) / 2;
        before[middle] >= pass_time_between(row, middle, end) ? high = middle : low = middle + 1;
      }
      for (auto const b : {low, std::max<std::size_t>(low, s) - 1}) {
        auto const time = (std::max)(before[b], pass_time_between(row, b, end));
        if (time < slowest[end]) {
          slowest[end] = time;
          begin[s][end] = static_cast<std::uint32_t>(b);
        }
      }
    }
  }
  row_cut cut(stages + std::size_t{1}, static_cast<std::uint32_t>(n));
  for (std::uint32_t s = stages; s-- > 0;) cut[s] = begin[s + std::size_t{1}][cut[s + std::size_t{1}]];
  return cut;
}

}  // namespace cleave::detail
