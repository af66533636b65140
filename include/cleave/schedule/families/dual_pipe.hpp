// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// The data in which the ranks of DualPipe or DualPipeV differ.
struct dual_pipe_place {
  std::uint32_t near_stage, far_stage;  ///< the stage that runs first, and the other stage of the rank
  std::uint32_t inward;   ///< the number of ranks between this one and the meeting point of the directions
  std::uint32_t outward;  ///< the number of ranks from the entry to this one, inclusive
  std::uint32_t microbatches;  ///< per stage
};

/// Builds the list of one rank for `dual_pipe_order`.
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

  /// Appends the last backward passes of both stages in turn. The second half computes input gradients only.
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
  /// (stage, microbatch) pairs; done up to `next_weight_`.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> weights_;
  std::size_t next_weight_ = 0;
};

/// Returns the list of one rank, in eight phases. The first three are forward passes of one direction,
/// forward passes of both in turn, and input gradients among forward passes. Then come overlapping pairs,
/// followed by the way out in reverse. O(microbatches).
constexpr std::vector<action> dual_pipe_order(dual_pipe_place const& p) { return dual_pipe_writer(p).take(); }

/// Returns the reason why DualPipe does not accept these counts, or nothing.
constexpr std::optional<shape_fault> find_dual_pipe_fault(std::uint32_t ranks, std::uint32_t microbatches) {
  using enum shape_fault::kind;
  if (ranks % 2 != 0) return shape_fault{odd_ranks, ranks, 0};
  if (microbatches % 2 != 0) return shape_fault{odd_microbatches, microbatches, 0};
  if (microbatches / 2 < ranks) return shape_fault{too_few_microbatches, microbatches, 2 * ranks};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the DualPipe schedule: microbatches enter at both ends of the pipeline.
///
/// There are two chains of `ranks` stages in opposite directions, so that each rank holds two stages with
/// their weights. `microbatches` counts both directions. Each chain, and therefore the schedule, numbers its
/// half from 0. O(actions).
/// Source: DeepSeek-V3 technical report, 2024, §3.2.1 ("DualPipe").
/// \throws schedule_count_error, and shape_error for odd counts and for fewer microbatches than 2 ranks
constexpr schedule dual_pipe(std::uint32_t ranks, std::uint32_t microbatches) {
  require_counts(ranks, 2, microbatches);
  if (auto const fault = detail::find_dual_pipe_fault(ranks, microbatches))
    throw shape_error("DualPipe", *fault);
  schedule s{detail::bidirectional_placement(ranks), microbatches / 2, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    bool const first_half = r < ranks / 2;
    auto const one = r, other = 2 * ranks - 1 - r, outward = (std::min)(r, ranks - 1 - r) + 1;
    s.ranks.push_back(detail::dual_pipe_order({.near_stage = first_half ? one : other,
                                               .far_stage = first_half ? other : one,
                                               .inward = ranks / 2 - outward,
                                               .outward = outward,
                                               .microbatches = microbatches / 2}));
  }
  return s;
}

/// Returns the DualPipeV schedule: DualPipe folded at its middle, so that the weights are kept once.
///
/// Each rank has two stages, one on the way down and one on the way up. Forward and backward passes of
/// different microbatches run as compounds. O(actions).
/// Source: Qi et al., "DualPipe could be better without the Dual", 2025; DeepSeek's DualPipeV.
/// \throws schedule_count_error, and shape_error if there are fewer microbatches than stages
constexpr schedule dual_pipe_v(std::uint32_t ranks, std::uint32_t microbatches) {
  require_counts(ranks, 2, microbatches);
  if (microbatches < 2 * ranks)
    throw shape_error("DualPipeV", {shape_fault::kind::too_few_microbatches, microbatches, 2 * ranks});
  schedule s{detail::wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(detail::dual_pipe_order({.near_stage = r,
                                               .far_stage = 2 * ranks - 1 - r,
                                               .inward = ranks - 1 - r,
                                               .outward = r + 1,
                                               .microbatches = microbatches}));
  return s;
}
}  // namespace cleave
