// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstdint>

#include "cleave/schedule/model/stage_cost.hpp"

namespace cleave::inline v0_2 {

/// The form of backward passes: B, or I followed later by W.
enum class backward_choice : std::uint8_t {
  either,  ///< chosen for each pass
  whole,   ///< always B
  split,   ///< always I and W
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Lower bounds on the time of a backward pass: until its gradient is available, and the rest.
struct least_backward {
  double first = 0, rest = 0;
};

constexpr least_backward least_backward_of(stage_cost const& c, backward_choice form) {
  if (form == backward_choice::whole) return {c.backward, 0};
  auto const halves = c.input_gradient + c.weight_gradient;
  if (form == backward_choice::split) return {c.input_gradient, c.weight_gradient};
  auto const first = (std::min)(c.backward, c.input_gradient);
  return {first, (std::min)(c.backward, halves) - first};
}

}  // namespace cleave::detail
