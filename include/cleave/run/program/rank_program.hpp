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

/// What one rank issues in a step, as plain data: its calls with everything looked up that the executor
/// needs, so that a step looks up nothing.
namespace cleave::detail {

/// Where memory is while a step runs.
enum class place_kind : std::uint8_t {
  nowhere,
  arena,   ///< `at` bytes into the memory that the plan of slots gives the rank
  input,   ///< input number `at` of the caller
  result,  ///< `at` bytes into what the rank keeps for the caller
};

struct value_place {
  place_kind where = place_kind::nowhere;
  std::uint64_t at = 0;

  bool operator==(value_place const&) const = default;
};

/// A value, or its gradient, in a pass.
struct program_value {
  value_place place = {};
  std::uint32_t edge = 0;  ///< of the transport: whose layout it has
  value_place shape = {};  ///< where its shape is, if that travels with it

  bool operator==(program_value const&) const = default;
};

/// Elements that are copied, or added, from one place to another: those of one value.
struct program_copy {
  program_value from, to;

  bool operator==(program_copy const&) const = default;
};

/// What a pass reads and makes. Of a forward pass inputs and results, of a backward pass gradients of results
/// and of inputs, in the order of the transport; without a place where there is none.
struct program_pass {
  std::vector<program_value> in, out;
  std::vector<program_copy> sums;    ///< before a backward pass: of results with several readers
  std::vector<program_copy> copies;  ///< after a forward pass: for readers beyond the first
  std::uint32_t forward = 0;         ///< the forward pass of the same stage and microbatch
  std::uint64_t saved_at = 0, saved_bytes = 0, saved_for_weights_at = 0,
                saved_for_weights_bytes = 0;  ///< in the arena

  bool operator==(program_pass const&) const = default;
};

struct rank_instruction {
  static constexpr std::uint32_t none = 0xffffffff;

  rank_call call = {};
  /// Of a pass, OFFLOAD, RELOAD and RECOMPUTE, also those that the user does: which of `passes`.
  std::uint32_t pass = none;
  /// Of a message: who is at its other end, its number in the step, and its bytes in the arena.
  rank_id peer{0xffffffff};
  std::uint32_t number = 0;
  std::uint64_t at = 0, bytes = 0;
  std::uint32_t after = none;  ///< of a message: the instruction that must have ended before it begins

  bool operator==(rank_instruction const&) const = default;
};

/// Where a rank is that has issued all instructions of a step: it replays the step, sums gradients, or has
/// ended the step.
inline constexpr std::uint32_t program_replaying = 0xfffffffd, program_reducing = 0xfffffffe,
                               program_done = 0xffffffff;

/// A result that the caller gets from this rank.
struct program_result {
  microbatch_id microbatch;
  std::uint32_t number;  ///< which of the caller's results
  program_value value;
  std::uint32_t pass = 0, output = 0;  ///< the forward pass that makes it, and which of its results it is

  bool operator==(program_result const&) const = default;
};

/// What is run, in numbers that are equal where all ranks have been given the same.
struct program_digest {
  std::uint64_t schedule = 0, dataflow = 0, layouts = 0, calls = 0;

  bool operator==(program_digest const&) const = default;
};

}  // namespace cleave::detail

namespace cleave {

struct rank_program {
  rank_id rank{0};
  std::uint32_t ranks = 1, microbatches = 0;
  std::vector<detail::rank_instruction> instructions;  ///< an exchange, and a custom compound, then its parts
  std::vector<detail::program_pass> passes;
  std::vector<detail::program_result> results;
  run_layouts layouts;
  std::uint64_t arena_bytes = 0, result_bytes = 0;
  detail::program_digest digest;  ///< of the whole step, not of this rank alone
  gradient_scale scale = gradient_scale::none;

  bool operator==(rank_program const&) const = default;
};

}  // namespace cleave

namespace cleave::detail {

/// Of each instruction: the exchange or custom compound that it is part of, or itself. O(instructions).
inline std::vector<std::uint32_t> heads_of(rank_program const& p) {
  std::vector<std::uint32_t> heads(p.instructions.size());
  for (std::uint32_t i = 0, head = 0; i < heads.size(); ++i) {
    if (i > head + p.instructions[head].call.parts) head = i;
    heads[i] = head;
  }
  return heads;
}

/// By how much the loss of each microbatch counts where the step does not say. Precondition: there are some.
constexpr double weight_of_each(rank_program const& p) {
  return p.scale == gradient_scale::by_microbatches ? 1. / p.microbatches : 1;
}

/// Whether it is what the user does, or a part of that.
constexpr bool is_custom(call_kind k) { return k == call_kind::custom || k == call_kind::part; }

/// Whether it is a forward pass, or a backward pass or half of one, whoever does it.
constexpr bool is_forward_pass(rank_call const& c) {
  return c.kind == call_kind::forward || (is_custom(c.kind) && c.of.kind == action_kind::forward);
}
constexpr bool is_backward_pass(rank_call const& c) {
  return (is_pass(c.kind) || (is_custom(c.kind) && is_compute(c.of.kind))) && !is_forward_pass(c);
}

/// Whether it has backward passes. O(instructions).
inline bool has_backward(rank_program const& p) {
  return std::ranges::any_of(p.instructions,
                             [](rank_instruction const& i) { return is_backward_pass(i.call); });
}

}  // namespace cleave::detail
