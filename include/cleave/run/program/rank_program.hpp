// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/run/model/edge_layout.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/calls/rank_calls.hpp"

/// The program of one rank for a step, as plain data: its calls with peers, offsets and message numbers
/// resolved in advance, so that a step looks up nothing.
namespace cleave::inline v0_2::detail {

/// The kind of memory that a value is in during a step.
enum class place_kind : std::uint8_t {
  nowhere,
  arena,   ///< at byte `at` of the arena that the memory plan gives the rank
  input,   ///< input number `at` of the caller
  result,  ///< at byte `at` of the memory that the rank keeps for the caller's results
};

/// The location of a value during a step.
struct value_place {
  place_kind where = place_kind::nowhere;
  std::uint64_t at = 0;

  bool operator==(value_place const&) const = default;
};

/// A value or its gradient, as used by a pass.
struct program_value {
  value_place place = {};
  std::uint32_t edge = 0;  ///< edge of the dataflow; defines the layout
  value_place shape = {};  ///< location of the shape, if it is sent with the value

  bool operator==(program_value const&) const = default;
};

/// A copy or addition of one value from one place to another.
struct program_copy {
  program_value from, to;

  bool operator==(program_copy const&) const = default;
};

/// The values that a pass reads and makes, in the order of the dataflow: inputs and results of a forward
/// pass, or gradients of results and of inputs of a backward pass. Missing values have place `nowhere`.
struct program_pass {
  std::vector<program_value> in, out;
  /// Before a backward pass: adds gradients of results with several readers.
  std::vector<program_copy> sums;
  std::vector<program_copy> copies;  ///< after a forward pass: copies results to readers after the first
  std::uint32_t forward = 0;         ///< the forward pass of the same stage and microbatch
  std::uint64_t saved_at = 0, saved_bytes = 0, saved_for_weights_at = 0,
                saved_for_weights_bytes = 0;  ///< in the arena

  bool operator==(program_pass const&) const = default;
};

/// One instruction of a rank program: a call with its resolved operands.
struct rank_instruction {
  static constexpr std::uint32_t none = 0xffffffff;

  rank_call call = {};
  /// Index into `passes`, for a pass, OFFLOAD, RELOAD or RECOMPUTE, custom ones included.
  std::uint32_t pass = none;
  /// Messages: the rank at the other end, the number in the step, and the byte range in the arena.
  rank_id peer{0xffffffff};
  std::uint32_t number = 0;
  std::uint64_t at = 0, bytes = 0;
  std::uint32_t after = none;  ///< messages: the instruction that must end before this one begins

  bool operator==(rank_instruction const&) const = default;
};

/// Positions of a rank after all instructions of a step have been issued: replaying the step, summing
/// gradients, or done.
inline constexpr std::uint32_t program_replaying = 0xfffffffd, program_reducing = 0xfffffffe,
                               program_done = 0xffffffff;

/// A result that this rank makes for the caller.
struct program_result {
  microbatch_id microbatch;
  std::uint32_t number;  ///< position among the caller's results
  program_value value;
  std::uint32_t pass = 0, output = 0;  ///< the forward pass that makes it, and the position among its results

  bool operator==(program_result const&) const = default;
};

/// Hashes of the inputs of a step. They are equal if all ranks were given the same.
struct program_digest {
  std::uint64_t schedule = 0, dataflow = 0, layouts = 0, calls = 0;

  bool operator==(program_digest const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// The program of one rank: the instructions that it issues in each step, and the memory that they use.
struct rank_program {
  rank_id rank{0};
  std::uint32_t ranks = 1, microbatches = 0;
  /// An exchange or custom compound is followed by its parts.
  std::vector<detail::rank_instruction> instructions;
  std::vector<detail::program_pass> passes;
  std::vector<detail::program_result> results;
  run_layouts layouts;
  /// Sizes of the rank's arena and of its results for the caller.
  std::uint64_t arena_bytes = 0, result_bytes = 0;
  detail::program_digest digest;  ///< of the whole step, the same on all ranks
  gradient_scale scale = gradient_scale::none;

  bool operator==(rank_program const&) const = default;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the default weight of each microbatch's loss. Precondition: there are microbatches.
constexpr double weight_of_each(gradient_scale scale, std::uint32_t microbatches) {
  return scale == gradient_scale::by_microbatches ? 1. / microbatches : 1;
}

/// Returns true for custom actions and their parts, which the stages execute themselves.
constexpr bool is_custom(call_kind k) { return k == call_kind::custom || k == call_kind::part; }

/// Return true for a forward pass, or a backward pass or half of one, custom ones included.
constexpr bool is_forward_pass(rank_call const& c) {
  return c.kind == call_kind::forward || (is_custom(c.kind) && c.of.kind == action_kind::forward);
}
constexpr bool is_backward_pass(rank_call const& c) {
  return (is_pass(c.kind) || (is_custom(c.kind) && is_compute(c.of.kind))) && !is_forward_pass(c);
}

/// Returns true if the program has backward passes. O(instructions).
inline bool has_backward(rank_program const& p) {
  return std::ranges::any_of(p.instructions,
                             [](rank_instruction const& i) { return is_backward_pass(i.call); });
}

}  // namespace cleave::detail
