// SPDX-License-Identifier: MIT
#pragma once
#include <span>

#include "cleave/core/expects.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/tensor_view.hpp"
#include "cleave/run/program/rank_program.hpp"

namespace cleave::detail {

/// Has the stages do what a call says: a pass, or what belongs to one. `in` and `out` are those of the pass:
/// of a forward pass inputs and results, of a backward pass gradients of results and of inputs.
/// Precondition: they have the member that it needs (`find_lacking_ability`).
template <device D, stage<D> S>
void call_stage(S& stages, typename D::stream& s, rank_call const& call, stage_pass const& p,
                std::span<tensor_view const> in, std::span<tensor_view> out) {
  auto const kind = call.kind;
  auto const action = call.of.kind;
  if (kind == call_kind::forward) return stages.forward(s, p, in, out);
  if constexpr (trained_stage<S, D>)
    if (kind == call_kind::backward) return stages.backward(s, p, in, out);
  if constexpr (split_backward_stage<S, D>) {
    if (kind == call_kind::backward_input) return stages.backward_input(s, p, in, out);
    if (kind == call_kind::backward_weight) return stages.backward_weight(s, p);
  }
  if constexpr (sharded_stage<S, D>) {
    if (kind == call_kind::unshard) return stages.unshard(s, call.of.stage);
    if (kind == call_kind::reshard) return stages.reshard(s, call.of.stage);
  }
  if constexpr (offloaded_stage<S, D>) {
    if (action == action_kind::offload) return stages.offload(s, p);
    if (action == action_kind::reload) return stages.reload(s, p);
  }
  if constexpr (recomputed_stage<S, D>)
    if (action == action_kind::recompute) return stages.recompute(s, p, in);
  expects(false, "call_stage: a call that the stages have a member for");
}

}  // namespace cleave::detail
