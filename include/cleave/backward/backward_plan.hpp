// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <vector>

#include "cleave/graph/csr.hpp"

/// The backward pass of a pipe as plain data. Values are those of its stage_root, gradients are numbered in
/// the order in which they are made.
namespace cleave {

/// A place in what a stage gives or the caller passes, in prefix order: a value with its gradient; or a tuple
/// of the next `elements` places; or, without value and elements, one that nobody asks for.
struct gradient_place {
  std::uint32_t value = none<std::uint32_t>;
  std::uint32_t gradient = none<std::uint32_t>;  ///< or none where none arrives; at the loss that means one
  std::uint32_t elements = 0;

  bool operator==(gradient_place const&) const = default;
};

/// A gradient of `value`: what `call` gives for its input number `input`, or, where `old` is set, the sum of
/// two gradients that were made before.
struct gradient_step {
  std::uint32_t value = none<std::uint32_t>;
  std::uint32_t call = none<std::uint32_t>, input = none<std::uint32_t>;
  std::uint32_t old = none<std::uint32_t>, added = none<std::uint32_t>;

  bool is_sum() const { return old != none<std::uint32_t>; }
  bool operator==(gradient_step const&) const = default;
};

/// The backward pass of one stage.
struct backward_call {
  std::uint32_t stage;                    ///< its value
  std::uint32_t width = 0;                ///< how many outputs it has …
  std::vector<gradient_place> outputs{};  ///< … they: its elements, then what is used whole beside them
  std::vector<std::uint32_t> selected{};  ///< the outputs that gradients arrive at, ascending
  std::vector<std::uint32_t> inputs{};    ///< the values that it was called with, each once
  std::uint32_t first_gradient = 0;       ///< of those that follow the call: of its inputs, and sums

  bool operator==(backward_call const&) const = default;
};

/// Of an input of the root: where its gradients are. A tuple that stages also take whole has a gradient too,
/// to which those of its elements are to be added.
using gradient_tree = std::vector<gradient_place>;

/// How the stages that a loss depends on are differentiated, and where gradients are added: plain data.
struct backward_plan {
  std::vector<backward_call> calls;      ///< of the stages that the loss depends on, the last first
  std::vector<gradient_step> gradients;  ///< a sum directly after the later of what it adds
  std::vector<gradient_tree> inputs;     ///< of each input in order, where they are asked for

  bool operator==(backward_plan const&) const = default;
};
}  // namespace cleave
