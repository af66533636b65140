// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>

#include "cleave/place/placement_row.hpp"

namespace cleave::testing {

/// Returns a row of units that each take 1 forward and 2 backward, with messages of `crossing` bytes.
inline placement_row equal_units(std::size_t units, std::uint64_t crossing) {
  placement_row made;
  made.units.cost.push_back({.forward = 0, .backward = 0, .input_gradient = 0, .weight_gradient = 0});
  for (std::size_t i = 0; i < units; ++i) {
    auto next = made.units.cost.back();
    next.forward += 1;
    next.backward += 2;
    made.units.cost.push_back(next);
  }
  made.units.crossing.assign(units + 1, {crossing, crossing});
  return made;
}

}  // namespace cleave::testing
