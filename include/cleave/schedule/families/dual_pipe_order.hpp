// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/schedule/families/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"

namespace cleave::detail {

/// What tells the lists of two ranks of DualPipe or DualPipeV from each other.
struct dual_pipe_place {
  std::uint32_t near_stage, far_stage;  ///< the stage that begins first, and the other
  std::uint32_t inward;                 ///< ranks between this one and where the directions meet
  std::uint32_t outward;                ///< and between it and the entry, this one too
  std::uint32_t microbatches;           ///< of each stage
};

/// Makes the list of one rank; `dual_pipe_order` is its one use.
class dual_pipe_writer {
 public:
  constexpr explicit dual_pipe_writer(dual_pipe_place const& p)
      : place_(p), near_{p.near_stage}, far_{p.far_stage}, order_(9 * std::size_t{p.microbatches}) {}

  constexpr std::vector<action> take() {
    auto const [near_stage, far_stage, inward, outward, microbatches] = place_;
    for (std::uint32_t i = 0; i < 2 * inward; ++i) forward(near_);
    for (std::uint32_t i = 0; i < outward; ++i) forward(near_), forward(far_);
    for (std::uint32_t i = 0; i < inward; ++i) input(far_), weight(), forward(far_);
    for (bool first = true; near_.forward < microbatches; first = false) {
      if (first && inward == 0)
        forward(near_), backward(far_);
      else
        overlap(near_, far_);
      overlap(far_, near_);
    }
    for (std::uint32_t i = 0; i < inward; ++i) backward(far_), overlap(far_, near_);
    drain(outward);
    for (std::uint32_t i = 0; i < inward; ++i) weight(), input(near_);
    while (next_weight_ < weights_.size()) weight();
    return order_.take();
  }

 private:
  struct chunk {
    std::uint32_t stage, forward = 0, backward = 0;
  };

  /// The last backward passes of both in turn; of the second half only the gradients of inputs.
  constexpr void drain(std::uint32_t rounds) {
    for (std::uint32_t i = 0; i < 2 * rounds; ++i) {
      auto& c = i % 2 == 0 ? far_ : near_;
      if (i < rounds)
        backward(c);
      else
        input(c);
    }
  }
  constexpr void forward(chunk& c) { order_.forward(c.stage, c.forward++); }
  constexpr void backward(chunk& c) { order_.backward(c.stage, c.backward++); }
  constexpr void input(chunk& c) {
    order_.input_gradient(c.stage, c.backward);
    weights_.emplace_back(c.stage, c.backward++);
  }
  constexpr void weight() {
    auto const [stage, microbatch] = weights_[next_weight_++];
    order_.weight_gradient(stage, microbatch);
  }
  constexpr void overlap(chunk& f, chunk& b) { order_.overlap(f.stage, f.forward++, b.stage, b.backward++); }

  dual_pipe_place place_;
  chunk near_, far_;
  rank_order order_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>>
      weights_;  // stage, microbatch; done up to next_weight_
  std::size_t next_weight_ = 0;
};

/// The list of one rank, eight phases: forward passes of one direction, of both in turn, input gradients
/// among them, pairs that overlap, and the same way out. O(microbatches).
constexpr std::vector<action> dual_pipe_order(dual_pipe_place const& p) { return dual_pipe_writer(p).take(); }

}  // namespace cleave::detail
