// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/graph/csr.hpp"

/// The backward pass of a pipe as plain data. Values are numbered as in the stage_root. Gradients are
/// numbered in the order in which they are made.
namespace cleave::inline v0_2 {

/// A place in the output of a stage or in an input of the caller, listed in prefix order. It is a value with
/// its gradient, a tuple of the next `elements` places, or, without value and elements, an unused place.
struct gradient_place {
  std::uint32_t value = none<std::uint32_t>;
  std::uint32_t gradient = none<std::uint32_t>;  ///< none if none arrives; at the loss this means 1
  std::uint32_t elements = 0;                    ///< number of places in the tuple; 0 for a leaf

  bool operator==(gradient_place const&) const = default;
};

/// A step that makes a gradient of `value`. It is the gradient of input number `input` of `call`. If `old` is
/// set, it is the sum of two earlier gradients instead.
struct gradient_step {
  std::uint32_t value = none<std::uint32_t>;
  std::uint32_t call = none<std::uint32_t>, input = none<std::uint32_t>;
  std::uint32_t old = none<std::uint32_t>, added = none<std::uint32_t>;

  bool is_sum() const { return old != none<std::uint32_t>; }
  bool operator==(gradient_step const&) const = default;
};

/// The backward call of one stage.
struct backward_call {
  std::uint32_t stage;                    ///< value of the stage in the root
  std::uint32_t width = 0;                ///< number of outputs
  std::vector<gradient_place> outputs{};  ///< in prefix order: its elements, then tuples that are used whole
  std::vector<std::uint32_t> selected{};  ///< numbers of the outputs that receive gradients, ascending
  std::vector<std::uint32_t> inputs{};    ///< the arguments of the stage, each listed once
  std::uint32_t first_gradient = 0;  ///< first gradient after the call: gradients of its inputs, and sums

  bool operator==(backward_call const&) const = default;
};

/// The places of the gradients of one input of the root. A tuple that stages also read whole has a gradient
/// of its own, to which the gradients of its elements must be added.
using gradient_tree = std::vector<gradient_place>;

/// A plan of the backward calls of stages and of the sums of gradients.
struct backward_plan {
  std::vector<backward_call> calls;      ///< for the stages that the loss depends on, the last stage first
  std::vector<gradient_step> gradients;  ///< a sum directly follows the later of its two terms
  std::vector<gradient_tree> inputs;     ///< for each input of the root, in order; empty if not requested

  bool operator==(backward_plan const&) const = default;
};
}  // namespace cleave
