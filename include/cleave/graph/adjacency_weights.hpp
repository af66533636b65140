// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <cstdint>
#include <span>

#include "cleave/core/fixed_point.hpp"
#include "cleave/graph/adjacency.hpp"

/// Weights of a graph as 64-bit integers, whose sums are exact and the same in any order.
namespace cleave::detail {

/// Floating weights in units that keep their sum below 2^60; integral ones as they are.
template <weight_number Weight>
fixed_point exact_unit(std::span<Weight const> weights) {
  if constexpr (std::floating_point<Weight>) {
    double total = 0;
    for (auto const w : weights) total += static_cast<double>(w);
    return fixed_point::for_total(total);
  } else {
    return {};
  }
}

template <weight_number Weight>
std::int64_t in_unit(Weight w, fixed_point unit) {
  if constexpr (std::floating_point<Weight>)
    return unit.of(static_cast<double>(w));
  else
    return static_cast<std::int64_t>(w);
}

}  // namespace cleave::detail
