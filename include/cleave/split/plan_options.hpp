// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/split/part_order.hpp"

namespace cleave {

/// In which order a stage lists the values it is given, and its state.
enum class input_order : std::uint8_t {
  first_use,   ///< as its nodes first read them
  definition,  ///< the caller's in the caller's order, then as the nodes of the graph make them
};

/// In which order a stage lists the values it gives.
enum class output_order : std::uint8_t {
  production,  ///< as its nodes make them
  first_use,   ///< as they are first read outside the stage; those that only the caller reads come last
};

/// What happens where a stage that runs before any node sets a state comes after one that sets it, or where
/// the last stage that sets one leaves another than the graph does: another order, and where there is none
/// an error; and one setting more at the end. Or nothing, as torch.fx has it.
enum class late_settings : std::uint8_t { refused, accepted };

struct plan_options {
  order stages = order::program;
  output_order outputs = output_order::production;
  input_order inputs = input_order::first_use;
  std::vector<std::uint32_t> priority = {};  ///< of a part, for `order::priority`: the least comes first
  late_settings settings = late_settings::refused;  ///< in a graph with scopes
};
}  // namespace cleave
