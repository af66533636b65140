// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "cleave/core/language.hpp"
#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"
#include "cleave/schedule/model/schedule_names.hpp"

namespace cleave::inline v0_2::detail {

/// One of the stages of a rank, numbered from 0 along the model, and a microbatch.
struct chunk_step {
  std::uint32_t chunk, microbatch;
};

/// Enumerates the (stage, microbatch) pairs of a rank in groups. A group of microbatches passes through the
/// first stage, then through the second, and so on. Then the next group follows. The last group may be short.
class grouped_walk {
 public:
  constexpr grouped_walk(std::uint32_t chunks, std::uint32_t microbatches, std::uint32_t group)
      : chunks_(chunks), microbatches_(microbatches), group_(group), end_((std::min)(group, microbatches)) {}

  constexpr chunk_step next() {
    chunk_step const step{chunk_, microbatch_};
    if (++microbatch_ == end_) {
      if (++chunk_ == chunks_) {
        chunk_ = 0;
        first_ = end_;
        end_ += (std::min)(group_, microbatches_ - end_);
      }
      microbatch_ = first_;
    }
    return step;
  }

 private:
  std::uint32_t chunks_, microbatches_, group_;
  std::uint32_t chunk_ = 0, first_ = 0, microbatch_ = 0, end_;
};

/// Returns the number of microbatches that pass through a stage before the rank turns to its next stage. It
/// is at least `ranks` if there are that many microbatches, and all rounds have the same size.
constexpr std::uint32_t round_size(std::uint32_t ranks, std::uint32_t microbatches) {
  return microbatches / (std::max)(1u, microbatches / ranks);
}

/// Returns the fault if the microbatches do not form rounds of equal size, or nothing.
constexpr std::optional<shape_fault> find_uneven_rounds(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const rounds = (std::max)(1u, microbatches / ranks);
  if (microbatches % rounds == 0) return std::nullopt;
  return shape_fault{shape_fault::kind::uneven_rounds, microbatches, rounds};
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the interleaved 1F1B schedule: 1F1B over several stages per rank, with idle steps where a rank
/// waits. The bubble is that of 1F1B divided by the stages per rank, at the price of more messages.
/// O(actions).
/// Source: Narayanan et al., SC 2021, §2.2. Rounds are as in PyTorch.
/// \throws schedule_count_error, and shape_error if `microbatches` is not a multiple of max(1, microbatches
///   div ranks)
constexpr schedule interleaved_1f1b(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                    std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, stages_per_rank, microbatches);
  if (auto const fault = detail::find_uneven_rounds(ranks, microbatches))
    throw shape_error("interleaved 1F1B", *fault);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  auto const all = std::size_t{stages_per_rank} * microbatches;
  auto const group = detail::round_size(ranks, microbatches);
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::size_t const later = ranks - 1 - r;
    auto const warm_up = (std::min)((stages_per_rank - std::size_t{1}) * group + 2 * later, all);
    auto const first_gradient = std::size_t{stages_per_rank} * ranks + 2 * later;
    detail::grouped_walk forwards(stages_per_rank, microbatches, group), backwards = forwards;
    detail::rank_order order(2 * all + first_gradient + warm_up);
    auto const forward = [&] {
      auto const [chunk, microbatch] = forwards.next();
      order.forward(chunk * ranks + r, microbatch);
    };
    auto const backward = [&] {
      auto const [chunk, microbatch] = backwards.next();
      order.backward((stages_per_rank - 1 - chunk) * ranks + r, microbatch);
    };

    order.idle(r);
    for (std::size_t i = 0; i < warm_up; ++i) forward();
    if (warm_up > 0 && first_gradient > order.size()) order.idle(first_gradient - order.size());
    for (std::size_t i = warm_up; i < all; ++i) forward(), backward();
    for (std::size_t i = 0; i < warm_up; ++i) order.idle(), backward();
    s.ranks.push_back(order.take());
  }
  return s;
}

/// Options of `megatron_interleaved`.
struct megatron_options {
  /// Microbatches that pass through a stage before the next stage; 0 means `ranks`, or all if there are
  /// fewer.
  std::uint32_t group = 0;
  /// Additional forward passes before the first backward pass; 1 if messages of experts overlap.
  std::uint32_t extra_warm_up = 0;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the fault of a group size with which ranks would deadlock or wait long, or nothing.
constexpr std::optional<shape_fault> find_group_fault(std::uint32_t ranks, std::uint32_t microbatches,
                                                      std::uint32_t group) {
  using enum shape_fault::kind;
  auto const least = (std::min)(ranks, microbatches);
  if (group < least) return shape_fault{group_too_small, group, least};
  if (group > microbatches) return shape_fault{group_too_large, group, microbatches};
  auto const last = microbatches % group;
  if (last != 0 && last < ranks) return shape_fault{last_group_too_small, last, ranks};
  return std::nullopt;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns an interleaved 1F1B schedule with groups of any size; the last group may be short. This is
/// Megatron-LM's `microbatch_group_size_per_vp_stage`. O(actions).
/// Source: Narayanan et al., SC 2021, §2.2.
/// \throws schedule_count_error, and shape_error for a group smaller than both `ranks` and `microbatches`, or
///   larger than `microbatches`, or a last group smaller than `ranks`
constexpr schedule megatron_interleaved(std::uint32_t ranks, std::uint32_t stages_per_rank,
                                        std::uint32_t microbatches, megatron_options const& options = {}) {
  require_counts(ranks, stages_per_rank, microbatches);
  auto const group = options.group == 0 ? (std::min)(ranks, microbatches) : options.group;
  if (auto const fault = detail::find_group_fault(ranks, microbatches, group))
    throw shape_error("interleaved 1F1B in groups", *fault);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  auto const all = std::size_t{stages_per_rank} * microbatches;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    auto const ahead = 2 * std::size_t{ranks - 1 - r} + options.extra_warm_up;
    auto const warm_up = (std::min)((stages_per_rank - std::size_t{1}) * group + ahead, all);
    detail::grouped_walk forwards(stages_per_rank, microbatches, group), backwards = forwards;
    detail::rank_order order(2 * all);
    for (std::size_t i = 0; i < warm_up + all; ++i) {
      if (i < all) {
        auto const [chunk, microbatch] = forwards.next();
        order.forward(chunk * ranks + r, microbatch);
      }
      if (i >= warm_up) {
        auto const [chunk, microbatch] = backwards.next();
        order.backward((stages_per_rank - 1 - chunk) * ranks + r, microbatch);
      }
    }
    s.ranks.push_back(order.take());
  }
  return s;
}

/// Returns the depth-first schedule: interleaved 1F1B in groups of `ranks` microbatches.
///
/// Each group has just enough microbatches to keep all ranks busy, and passes through all stages before the
/// next group. It is the counterpart of `looped_bfs`. O(actions).
/// Source: Lamy-Poirier, MLSys 2023 ("depth-first").
/// \throws schedule_count_error, and shape_error if `microbatches` is above `ranks` and not a multiple of it
constexpr schedule depth_first(std::uint32_t ranks, std::uint32_t stages_per_rank,
                               std::uint32_t microbatches) {
  require_counts(ranks, stages_per_rank, microbatches);
  if (microbatches > ranks && microbatches % ranks != 0)
    throw shape_error("depth-first", {shape_fault::kind::uneven_rounds, microbatches, ranks});
  return megatron_interleaved(ranks, stages_per_rank, microbatches);
}
/// Returns the breadth-first schedule: GPipe over several stages per rank. Each stage runs all microbatches
/// before the rank turns to its next stage, so that the weights of only one stage are needed at a time.
/// O(actions).
/// Source: Lamy-Poirier, MLSys 2023 ("breadth-first").
/// \throws schedule_count_error
constexpr schedule looped_bfs(std::uint32_t ranks, std::uint32_t stages_per_rank,
                              std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, stages_per_rank, microbatches);
  schedule s{loop_placement(ranks, stages_per_rank), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) {
    std::size_t const later = ranks - 1 - r;
    detail::rank_order order(2 * std::size_t{microbatches} * stages_per_rank + r + 2 * later);
    order.idle(r);
    for (std::uint32_t chunk = 0; chunk < stages_per_rank; ++chunk)
      for (std::uint32_t i = 0; i < microbatches; ++i) order.forward(chunk * ranks + r, i);
    order.idle(2 * later);
    for (std::uint32_t chunk = stages_per_rank; chunk-- > 0;)
      for (std::uint32_t i = microbatches; i-- > 0;) order.backward(chunk * ranks + r, i);
    s.ranks.push_back(order.take());
  }
  return s;
}
}  // namespace cleave
