// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/calls/call_options.hpp"
#include "cleave/schedule/calls/rank_call.hpp"
#include "cleave/schedule/lower/rank_stages.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// The calls of one rank for weights and gradients: what is gathered and let go, reduced and waited for.
/// Each function gives what is wrong, or nothing.
class weight_calls {
 public:
  using maybe_fault = std::optional<call_fault::kind>;

  /// Appends to `calls`. Refers to it and to the options.
  weight_calls(std::span<action const> row, std::uint32_t microbatches, call_options const& options,
               std::vector<rank_call>& calls)
      : stages_(row),
        state_(stages_.count()),
        options_(options),
        divisor_(options.scale == gradient_scale::by_microbatches ? microbatches : 1),
        calls_(calls) {}

  /// Waits until the weights of a stage are there.
  maybe_fault use(stage_id s) {
    if (are_whole()) return std::nullopt;
    auto& state = state_of(s);
    if (!state.gathered) return call_fault::kind::not_unsharded;
    auto const begun = std::exchange(state.gathering, rank_call::none);
    if (begun != rank_call::none)
      calls_.push_back({.kind = call_kind::wait_unshard, .of = calls_[begun].of, .begun = begun});
    return std::nullopt;
  }

  maybe_fault unshard(action const& a) {
    if (are_whole()) return std::nullopt;
    auto& state = state_of(a.stage);
    if (std::exchange(state.gathered, true)) return call_fault::kind::unsharded_twice;
    state.gathering = next_call();
    state.reduced = false;
    calls_.push_back({.kind = call_kind::unshard, .of = a});
    return std::nullopt;
  }

  /// After the reduction, which lets the weights go, there is nothing to do.
  maybe_fault reshard(action const& a) {
    if (are_whole() || state_of(a.stage).reduced) return std::nullopt;
    if (auto const fault = use(a.stage)) return fault;
    state_of(a.stage).gathered = false;
    calls_.push_back({.kind = call_kind::reshard, .of = a});
    return std::nullopt;
  }

  maybe_fault reduce(action const& a) {
    auto& state = state_of(a.stage);
    state.reduced = true;
    state.reducing = next_call();
    if (options_.gradients == gradient_end::kept) return std::nullopt;
    if (are_whole()) {
      calls_.push_back({.kind = call_kind::reduce, .of = a, .divisor = divisor_});
    } else {
      calls_.push_back({.kind = call_kind::start_reduce, .of = a});
      state.gathered = false;
    }
    return std::nullopt;
  }

  maybe_fault wait_reduce(action const& a) {
    auto const begun = std::exchange(state_of(a.stage).reducing, rank_call::none);
    if (begun == rank_call::none) return call_fault::kind::reduced_too_soon;
    if (!are_whole() && options_.gradients == gradient_end::reduced)
      calls_.push_back({.kind = call_kind::wait_reduce, .of = a, .divisor = divisor_, .begun = begun});
    return std::nullopt;
  }

  /// The user does an action instead: call number `call`.
  void leave_to_user(action const& a, std::uint32_t call) {
    if (a.kind == action_kind::unshard) state_of(a.stage).gathered = true;
    if (a.kind == action_kind::reshard) state_of(a.stage).gathered = false;
    if (a.kind == action_kind::reduce_gradient) {
      state_of(a.stage).reduced = true;
      state_of(a.stage).reducing = call;
    }
  }

 private:
  struct stage_state {
    bool gathered = false, reduced = false;
    std::uint32_t gathering = rank_call::none;  // the call that has begun it, until it is waited for
    std::uint32_t reducing = rank_call::none;
  };

  bool are_whole() const { return options_.weights == weight_storage::whole; }
  stage_state& state_of(stage_id s) { return state_[stages_.number(s)]; }
  std::uint32_t next_call() const { return static_cast<std::uint32_t>(calls_.size()); }

  rank_stages stages_;
  std::vector<stage_state> state_;
  call_options const& options_;
  std::uint32_t divisor_;
  std::vector<rank_call>& calls_;
};

}  // namespace cleave::detail
