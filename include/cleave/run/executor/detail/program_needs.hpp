// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/custom_stage.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::detail {

/// Thrown if a program has a call that the stages do not support. Carries the first such call.
using program_need_error = witness_error<rank_call>;

/// Returns the member functions that a call needs and the stages lack, or null.
template <class S, class D>
char const* lacking_member(rank_call const& c) {
  switch (c.kind) {
    case call_kind::backward:
      return trained_stage<S, D> ? nullptr : "backward(stream, pass, gradients, inputs)";
    case call_kind::backward_input:
    case call_kind::backward_weight:
      return split_backward_stage<S, D>
                 ? nullptr
                 : "backward_input(stream, pass, gradients, inputs) and backward_weight(stream, pass)";
    case call_kind::unshard:
    case call_kind::reshard:
      return sharded_stage<S, D> ? nullptr : "unshard(stream, stage) and reshard(stream, stage)";
    case call_kind::other:
      if (c.of.kind == action_kind::recompute)
        return recomputed_stage<S, D> ? nullptr : "recompute(stream, pass, inputs)";
      if (is_tied_reduction(c.of.kind)) return nullptr;
      return offloaded_stage<S, D> ? nullptr : "offload(stream, pass) and reload(stream, pass)";
    case call_kind::custom:
      return custom_stage<S, D> ? nullptr : "custom(stream, action, parts)";
    default:
      return nullptr;
  }
}

/// Returns the index of the first call that stages of type `S` do not support, or nothing. O(instructions).
template <class S, class D>
std::optional<std::size_t> find_lacking_instruction(rank_program const& p) {
  for (std::size_t i = 0; i < p.instructions.size(); ++i)
    if (lacking_member<S, D>(p.instructions[i].call)) return i;
  return std::nullopt;
}

/// Returns that call, or nothing.
template <class S, class D>
std::optional<rank_call> find_lacking_ability(rank_program const& p) {
  if (auto const at = find_lacking_instruction<S, D>(p)) return p.instructions[*at].call;
  return std::nullopt;
}

/// Checks that the stages support all calls of the program.
/// \throws program_need_error
template <class S, class D>
void require_abilities(rank_program const& p) {
  auto const at = find_lacking_instruction<S, D>(p);
  if (!at) return;
  auto const& c = p.instructions[*at].call;
  std::vector<rank_call> parts;
  for (std::size_t i = 1; i <= c.parts; ++i) parts.push_back(p.instructions[*at + i].call);
  throw program_need_error("program: rank " + std::to_string(index(p.rank)) + ", " + call_text(c, parts) +
                               " needs stages with " + lacking_member<S, D>(c),
                           c);
}

}  // namespace cleave::detail
