// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/options.hpp"

namespace cleave {

struct repartition_options {
  double cost_per_byte = 1;            ///< of moving one byte, in the unit of the edge weights
  std::vector<std::uint64_t> bytes{};  ///< of a node: what moves with it; empty: one each
  std::vector<char> stays{};           ///< of a node: it must not move
  kway_options kway{};                 ///< balance, time, fixed nodes
};
}  // namespace cleave
