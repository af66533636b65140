// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/partition/model/partition.hpp"

namespace cleave::testing {

/// Returns min(k, nodes) slices of the program order with nearly equal node counts: node i of n goes to part
/// i·k/n.
inline partition equal_slices(cleave::onnx::graph const& g, std::uint32_t k) {
  auto const n = static_cast<std::uint32_t>(g.nodes().size());
  partition p{{}, std::min(k, n)};
  for (std::uint64_t i = 0; i < n; ++i) p.of.push_back(part_id{static_cast<std::uint32_t>(i * p.parts / n)});
  return p;
}

}  // namespace cleave::testing
