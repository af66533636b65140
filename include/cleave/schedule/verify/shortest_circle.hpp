// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// One waits for another.
struct circle_edge {
  std::uint32_t from, to;
};

/// The edges of a shortest circle, in order; empty where there is none. It begins at the smallest place that
/// any shortest one has. Breadth first from every place, no deeper than the best so far:
/// O(places · (places + edges)) at most, O(places + edges) where some circle is short.
inline std::vector<std::uint32_t> shortest_circle(std::uint32_t places, std::span<circle_edge const> edges) {
  std::vector<std::uint32_t> first(std::size_t{places} + 1), out(edges.size());
  for (auto const& e : edges) ++first[e.from + 1];
  for (std::uint32_t p = 0; p < places; ++p) first[p + 1] += first[p];
  auto next = first;
  for (std::uint32_t e = 0; e < edges.size(); ++e) out[next[edges[e].from]++] = e;

  std::vector<std::uint32_t> seen(places), by(places), depth(places), queue, best;
  for (std::uint32_t start = 0; start < places; ++start) {
    queue.assign(1, start);
    depth[start] = 0;
    bool closed = false;
    for (std::size_t done = 0; done < queue.size() && !closed; ++done) {
      auto const p = queue[done];
      if (!best.empty() && depth[p] + 1 >= best.size()) break;
      for (auto i = first[p]; i < first[p + 1] && !closed; ++i) {
        auto const to = edges[out[i]].to;
        if (to == start) {
          best.assign(1, out[i]);
          for (auto at = p; at != start; at = edges[by[at]].from) best.push_back(by[at]);
          std::ranges::reverse(best);
          closed = true;
        } else if (seen[to] != start + 1) {
          seen[to] = start + 1;
          by[to] = out[i];
          depth[to] = depth[p] + 1;
          queue.push_back(to);
        }
      }
    }
  }
  return best;
}

}  // namespace cleave::detail
