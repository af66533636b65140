// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cleave/schedule/families/detail/rank_order.hpp"
#include "cleave/schedule/model/action.hpp"
#include "cleave/schedule/model/placement.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::inline v0_2 {

/// The steps in which one microbatch is at a rank. They are the forward passes of the down and up stage, then
/// the input gradients of the up and down stage. The next microbatch follows six steps later.
struct v_block {
  std::uint32_t forward_down, forward_up, input_up, input_down;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the list of one rank. Weight gradients fill the steps that the block leaves free, in the order of
/// their input gradients. Idle steps are omitted. Precondition: the four steps differ modulo 6.
/// O(microbatches + steps of a block).
constexpr std::vector<action> v_block_order(v_block const& b, std::uint32_t down, std::uint32_t up,
                                            std::uint32_t microbatches) {
  struct track {
    action_kind kind;
    std::uint32_t stage, begin, next = 0;
  };
  std::array<track, 4> tracks{{{action_kind::forward, down, b.forward_down},
                               {action_kind::forward, up, b.forward_up},
                               {action_kind::input_gradient, up, b.input_up},
                               {action_kind::input_gradient, down, b.input_down}}};
  std::array<track*, 6> of_step{};
  for (auto& t : tracks) of_step[t.begin % 6] = &t;

  rank_order order(6 * std::size_t{microbatches});
  std::vector<std::pair<std::uint32_t, std::uint32_t>> weights;  // (stage, microbatch)
  weights.reserve(2 * std::size_t{microbatches});
  std::size_t next_weight = 0;
  for (std::uint32_t step = 0; next_weight < 2 * std::size_t{microbatches}; ++step) {
    track* const t = of_step[step % 6];
    if (t && step >= t->begin && t->next < microbatches) {
      order.add(t->kind, t->stage, t->next);
      if (t->kind == action_kind::input_gradient) weights.emplace_back(t->stage, t->next);
      ++t->next;
    } else if (next_weight < weights.size()) {
      auto const [stage, microbatch] = weights[next_weight++];
      order.weight_gradient(stage, microbatch);
    }
  }
  return order.take();
}

/// Returns the schedule in which rank r repeats `block(r)` for every microbatch. Qi et al., NeurIPS 2024
/// ("Pipeline Parallelism with Controllable Memory").
template <class Block>
constexpr schedule v_block_schedule(std::uint32_t ranks, std::uint32_t microbatches, Block block) {
  require_counts_with_idle(ranks, 2, microbatches);
  schedule s{wave_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r)
    s.ranks.push_back(v_block_order(block(r), r, 2 * ranks - 1 - r, microbatches));
  return s;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// A rule that defines the blocks of all ranks. `strides` are the steps from one rank to the next: for the
/// forward pass on the way down and up, and likewise for the input gradient. `turns` are the steps at the
/// turning points: on the last rank, at the loss, and on the last rank again.
struct v_block_rule {
  std::array<std::uint32_t, 4> strides{};
  std::array<std::uint32_t, 3> turns{};

  bool operator==(v_block_rule const&) const = default;

  /// Returns the block of rank `r` of `ranks`. Precondition: `ranks` is not 0.
  constexpr v_block block(std::uint32_t r, std::uint32_t ranks) const {
    auto const last = ranks - 1;
    auto const up = strides[0] * last + turns[0], input_up = up + strides[1] * last + turns[1],
               input_down = input_up + strides[2] * last + turns[2];
    return {strides[0] * r, up + strides[1] * (last - r), input_up + strides[2] * r,
            input_down + strides[3] * (last - r)};
  }
};

/// Returns the rule as text, strides before turns: `VBlock 2 1 2 1 / 1 4 2`.
inline std::string name_of(v_block_rule const& b) {
  std::string text = "VBlock";
  for (auto const s : b.strides) text += ' ' + std::to_string(s);
  text += " /";
  for (auto const t : b.turns) text += ' ' + std::to_string(t);
  return text;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the delays from the input gradients of a block to their weight gradients, in steps, the up stage
/// first. Weight gradients run in order in the two steps of six that are free. Precondition: the four steps
/// differ modulo 6.
constexpr std::array<std::uint32_t, 2> weight_delays(v_block const& b) {
  std::array<bool, 6> is_taken{};
  for (auto const begin : {b.forward_down, b.forward_up, b.input_up, b.input_down})
    is_taken[begin % 6] = true;
  std::array<std::uint32_t, 2> delay{};
  // Pairs of the stage (0 for up, 1 for down) and the step of its input gradient.
  std::array<std::pair<std::uint32_t, std::uint32_t>, 16> waiting{};
  std::size_t first = 0, last = 0;
  for (std::uint32_t step = 0; step < 24; ++step) {
    if (step < 18 && step % 6 == b.input_up % 6) waiting[last++] = {0, step};
    if (step < 18 && step % 6 == b.input_down % 6) waiting[last++] = {1, step};
    if (is_taken[step % 6] || first == last) continue;
    auto const [which, since] = waiting[first++];
    delay[which] = step - since;
  }
  return delay;
}

/// Returns the maximum number of passes, over all microbatches, whose saved activations a rank keeps. Returns
/// nothing if two passes of a rank fall on the same step of a period. O(ranks).
constexpr std::optional<std::uint32_t> kept_by(v_block_rule const& rule, std::uint32_t ranks) {
  std::uint32_t kept = 0;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    auto const b = rule.block(r, ranks);
    std::array begins{b.forward_down % 6, b.forward_up % 6, b.input_up % 6, b.input_down % 6};
    std::ranges::sort(begins);
    if (std::ranges::adjacent_find(begins) != begins.end()) return std::nullopt;
    auto const [up, down] = weight_delays(b);
    auto const end_up = b.input_up + up + 1, end_down = b.input_down + down + 1;
    for (std::uint32_t i = 0; i < 6; ++i) {
      auto const step = end_down + end_up + i;
      auto const begun = (step - b.forward_down) / 6 + (step - b.forward_up) / 6;
      auto const ended = (step - end_down) / 6 + (step - end_up) / 6;
      kept = (std::max)(kept, begun - ended);
    }
  }
  return kept;
}

/// Returns all valid rules with strides up to 3. Rules with longer strides keep more and wait less. Checks
/// 17,496 rules in O(ranks) each; a few hundred are valid.
/// Source: Qi et al., NeurIPS 2024, §3.3 ("Pipeline Parallelism with Controllable Memory").
inline std::vector<v_block_rule> v_block_family(std::uint32_t ranks) {
  std::vector<v_block_rule> all;
  for (std::uint32_t code = 0; code < 81 * 216; ++code) {
    v_block_rule rule;
    auto rest = code;
    for (auto& s : rule.strides) s = 1 + rest % 3, rest /= 3;
    for (auto& t : rule.turns) t = 1 + rest % 6, rest /= 6;
    if (kept_by(rule, ranks)) all.push_back(rule);
  }
  return all;
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the V-Half schedule, with about half the memory of 1F1B and about half its bubble. Both ratios are
/// approached as the number of ranks grows. O(actions + ranks^2).
/// Source: Qi et al., NeurIPS 2024 ("V-Half").
/// \throws schedule_count_error
constexpr schedule v_half(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const p = ranks, shift = ranks % 2 == 0 ? 3u : 0u;
  return detail::v_block_schedule(p, microbatches, [=](std::uint32_t r) {
    return v_block{2 * r, 3 * p - r - 2, 3 * p + shift + 2 * r - 1, 6 * p + shift - r - 2};
  });
}
/// Returns the V-Min schedule, with about a third of the memory of 1F1B and about two thirds of its bubble.
/// The memory ratio is approached as the number of ranks grows. O(actions + ranks^2).
/// Source: Qi et al., NeurIPS 2024 ("V-Min").
/// \throws schedule_count_error
constexpr schedule v_min(std::uint32_t ranks, std::uint32_t microbatches) {
  auto const p = ranks, shift = ranks % 3 == 0 ? 2u : 0u;
  return detail::v_block_schedule(p, microbatches, [=](std::uint32_t r) {
    return v_block{r, 2 * p - r - 1, 2 * p + shift + r, 4 * p + shift - r - 1};
  });
}
}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the list of rank `r`. It is built for at least 2 ranks - 1 microbatches; those out of range are
/// omitted.
constexpr std::vector<action> zb_h2_order(std::uint32_t r, std::uint32_t ranks, std::uint32_t microbatches) {
  auto const all = (std::max)(2 * ranks - 1, microbatches);
  rank_order order(3 * std::size_t{microbatches});
  std::uint32_t f = 0, i = 0, w = 0;
  auto const add = [&](action_kind kind, std::uint32_t& next) {
    if (next < microbatches) order.add(kind, r, next);
    ++next;
  };
  auto const forward = [&] { add(action_kind::forward, f); };
  auto const input = [&] { add(action_kind::input_gradient, i); };
  auto const weight = [&] { add(action_kind::weight_gradient, w); };

  while (f < 2 * (ranks - r) - 1) forward();
  while (i < 2 * r) input(), forward();
  while (f < all) input(), weight(), forward();
  while (i < all) input(), weight();
  while (w < all) weight();
  return order.take();
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns the ZB-H2 schedule: zero bubble with one stage per rank and nearly twice the memory of 1F1B.
///
/// No rank waits once it has begun, if F, I and W take equal time and there are at least 2 ranks - 1
/// microbatches. A single step ends as late as with ZB-H1. The gain is that the next step can begin rank by
/// rank, with the optimiser step validated afterwards. O(actions + ranks^2).
/// Source: Qi et al., ICLR 2024, §3 ("ZB-H2").
/// \throws schedule_count_error
constexpr schedule zb_h2(std::uint32_t ranks, std::uint32_t microbatches) {
  detail::require_counts_with_idle(ranks, 1, microbatches);
  schedule s{loop_placement(ranks), microbatches, {}};
  for (std::uint32_t r = 0; r < ranks; ++r) s.ranks.push_back(detail::zb_h2_order(r, ranks, microbatches));
  return s;
}

}  // namespace cleave
