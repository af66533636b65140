// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "cleave/core/random.hpp"
#include "random_graphs.hpp"

namespace bench {

/// What of a graph gets weights other than 1.
struct weighed {
  bool nodes = false, edges = false;
};

/// `+nodes`, `+edges` or `+weights`, for both, at the end of a name; nothing at all where there is no plus,
/// no value where another word is behind it.
inline std::pair<std::string_view, std::optional<weighed>> split_weights(std::string_view word) {
  auto const plus = word.rfind('+');
  if (plus == word.npos) return {word, weighed{}};
  auto const name = word.substr(0, plus), what = word.substr(plus + 1);
  if (what == "nodes") return {name, weighed{true, false}};
  if (what == "edges") return {name, weighed{false, true}};
  if (what == "weights") return {name, weighed{true, true}};
  return {name, std::nullopt};
}

/// From 1 to 256, as many from w up as are proportional to 1 / w.
inline std::int64_t unlike_weight(std::uint64_t of) {
  return static_cast<std::int64_t>(256 / (1 + cleave::splitmix(of).next() % 256));
}

inline void weigh(graph& g, weighed what) {
  auto const nodes = static_cast<std::uint32_t>(g.view().nodes());
  if (what.nodes)
    for (std::uint64_t n = 0; n < nodes; ++n) g.node_weight.push_back(unlike_weight(n));
  if (!what.edges) return;
  for (std::uint64_t n = 0; n < nodes; ++n)
    for (std::uint64_t const to : g.view().neighbours(n))
      g.edge_weight.push_back(unlike_weight(std::min(n, to) << 32 | std::max(n, to)));
}

}  // namespace bench
