// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "cleave/core/random.hpp"
#include "random_graphs.hpp"

namespace bench {

/// What of a graph gets weights other than 1.
struct weighted_items {
  bool nodes = false, edges = false;
};

/// What a word behind a name stands for: nodes, edges, or weights for both.
inline std::optional<weighted_items> items_called(std::string_view word) {
  if (word == "nodes") return weighted_items{true, false};
  if (word == "edges") return weighted_items{false, true};
  if (word == "weights") return weighted_items{true, true};
  return std::nullopt;
}

/// From 1 to 256; one in w is w or more (Pareto's distribution).
inline std::int64_t heavy_tailed_weight(std::uint64_t of) {
  return static_cast<std::int64_t>(256 / (1 + cleave::splitmix(of).next() % 256));
}

inline void weigh(graph& g, weighted_items what) {
  auto const nodes = static_cast<std::uint32_t>(g.view().nodes());
  if (what.nodes)
    for (std::uint64_t n = 0; n < nodes; ++n) g.node_weight.push_back(heavy_tailed_weight(n));
  if (!what.edges) return;
  for (std::uint64_t n = 0; n < nodes; ++n)
    for (std::uint64_t const to : g.view().neighbours(n))
      g.edge_weight.push_back(heavy_tailed_weight(std::min(n, to) << 32 | std::max(n, to)));
}

}  // namespace bench
