// SPDX-License-Identifier: MIT
#pragma once
#include <optional>
#include <string>

#include "cleave/core/error.hpp"
#include "cleave/run/concepts.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave {

/// Something that a program asks of stages which cannot do it. The witness: the first such call.
class program_need_error : public witness_error<rank_call> {
 public:
  explicit program_need_error(rank_call const& c, std::string const& member)
      : witness_error("program: " + call_text(c) + " needs stages with " + member, c) {}
};

/// What member a call needs that the stages lack, or nothing.
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
      if (is_about_tie(c.of.kind)) return nullptr;
      return offloaded_stage<S, D> ? nullptr : "offload(stream, pass) and reload(stream, pass)";
    default:
      return nullptr;
  }
}

/// The first call that stages of type `S` cannot do, or nothing. O(instructions).
template <class S, class D>
std::optional<rank_call> find_lacking_ability(rank_program const& p) {
  for (auto const& i : p.instructions)
    if (lacking_member<S, D>(i.call)) return i.call;
  return std::nullopt;
}

/// \throws program_need_error
template <class S, class D>
void demand_abilities(rank_program const& p) {
  if (auto const c = find_lacking_ability<S, D>(p)) throw program_need_error(*c, lacking_member<S, D>(*c));
}

}  // namespace cleave
