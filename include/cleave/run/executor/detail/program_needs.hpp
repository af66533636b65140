// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/ids.hpp"
#include "cleave/run/executor/detail/overlapped_pairs.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/custom_stage.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::inline v0_2::detail {

/// Thrown if a program has a call that the stages do not support. Carries the first such call, or the
/// backward pass of an overlapped pair.
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

/// Checks at compile time that optional members have the right arguments. Otherwise the executor would never
/// call them. Overloaded members and templates are not checked.
template <class S, class D>
constexpr void require_optional_members() {
  constexpr bool overlapped = !requires { &S::overlapped; } || overlapped_stage<S, D>;
  constexpr bool before_forward = !requires { &S::before_forward; } || hooked_before_forward<S, D>;
  constexpr bool after_forward = !requires { &S::after_forward; } || hooked_after_forward<S, D>;
  constexpr bool after_backward = !requires { &S::after_backward; } || hooked_after_backward<S, D>;
  static_assert(overlapped, "stages: the arguments of overlapped are (stream, custom_part, custom_part)");
  static_assert(before_forward, "stages: the arguments of before_forward are (stream, stage_pass)");
  static_assert(after_forward, "stages: the arguments of after_forward are (stream, stage_pass)");
  static_assert(after_backward, "stages: the arguments of after_backward are (stream, stage_pass)");
}

/// Checks that the passes of each pair for `overlapped` are independent. \throws program_need_error
inline void require_independent_pairs(rank_program const& p) {
  for (auto const& pair : overlapped_pairs(p)) {
    if (!is_dependent(p, pair)) continue;
    auto const &forward = p.instructions[pair.forward].call, &backward = p.instructions[pair.backward].call;
    throw program_need_error("program: rank " + std::to_string(index(p.rank)) + ", " +
                                 overlapped_text(forward.of, backward.of) +
                                 " is for overlapped(stream, forward, backward), but one pass needs the "
                                 "other; put them into separate cells",
                             backward);
  }
}

/// Checks that the stages support all calls of the program.
/// \throws program_need_error
template <class S, class D>
void require_abilities(rank_program const& p) {
  require_optional_members<S, D>();
  if constexpr (overlapped_stage<S, D>) require_independent_pairs(p);
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
