// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::testing {

/// Returns the number of nodes that are not copied where they are read.
inline std::uint32_t nodes_to_place(cleave::onnx::graph const& g) {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(g.nodes(), [&](auto n) { return !g.replicable(n); }));
}

/// Returns min(k, n) slices of the program order with nearly equal counts of the n nodes that are not
/// replicable: node i of these goes to part i·k/n. Replicable nodes have no part.
inline partition equal_slices(cleave::onnx::graph const& g, std::uint32_t k) {
  auto const n = nodes_to_place(g);
  partition p{{}, n == 0 && !g.nodes().empty() ? 1 : std::min(k, n)};
  std::uint64_t i = 0;
  for (auto const node : g.nodes())
    p.of.push_back(g.replicable(node) ? no_part : part_id{static_cast<std::uint32_t>(i++ * p.parts / n)});
  return p;
}

}  // namespace cleave::testing
