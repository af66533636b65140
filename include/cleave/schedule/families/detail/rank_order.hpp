// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::inline v0_2::detail {

/// The list of one rank under construction by a generator. Stages and microbatches are plain numbers.
class rank_order {
 public:
  constexpr explicit rank_order(std::size_t expected_actions) { list_.reserve(expected_actions); }

  constexpr void idle(std::size_t steps = 1) { list_.resize(list_.size() + steps); }
  constexpr void forward(std::uint32_t stage, std::uint32_t microbatch) {
    add(action_kind::forward, stage, microbatch);
  }
  constexpr void backward(std::uint32_t stage, std::uint32_t microbatch) {
    add(action_kind::backward, stage, microbatch);
  }
  constexpr void input_gradient(std::uint32_t stage, std::uint32_t microbatch) {
    add(action_kind::input_gradient, stage, microbatch);
  }
  constexpr void weight_gradient(std::uint32_t stage, std::uint32_t microbatch) {
    add(action_kind::weight_gradient, stage, microbatch);
  }
  /// Appends a forward and a backward pass as one compound.
  constexpr void overlap(std::uint32_t forward_stage, std::uint32_t forward_microbatch,
                         std::uint32_t backward_stage, std::uint32_t backward_microbatch) {
    list_.push_back({action_kind::overlap, 2, no_stage, no_microbatch, no_stage});
    forward(forward_stage, forward_microbatch);
    backward(backward_stage, backward_microbatch);
  }
  constexpr void add(action_kind kind, std::uint32_t stage, std::uint32_t microbatch) {
    list_.push_back({kind, 0, stage_id{stage}, microbatch_id{microbatch}, no_stage});
  }

  constexpr std::size_t size() const { return list_.size(); }
  constexpr std::vector<action> take() { return std::move(list_); }

 private:
  std::vector<action> list_;
};

}  // namespace cleave::detail
