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

#include "cleave/schedule/families/v_blocks.hpp"

namespace cleave {

/// A rule for the blocks of all ranks: from one rank to the next so many steps pass, on the way down and up
/// of the forward pass and of the input gradient; and so many where it turns round on the last rank, at the
/// loss and on the last rank again.
struct v_block_rule {
  std::array<std::uint32_t, 4> strides{};
  std::array<std::uint32_t, 3> turns{};

  bool operator==(v_block_rule const&) const = default;

  constexpr v_block block(std::uint32_t r, std::uint32_t ranks) const {
    auto const last = ranks - 1;
    auto const up = strides[0] * last + turns[0], input_up = up + strides[1] * last + turns[1],
               input_down = input_up + strides[2] * last + turns[2];
    return {strides[0] * r, up + strides[1] * (last - r), input_up + strides[2] * r,
            input_down + strides[3] * (last - r)};
  }
};

/// `VBlock 2 1 2 1 / 1 4 2`: strides, then turns.
inline std::string name_of(v_block_rule const& b) {
  std::string text = "VBlock";
  for (auto const s : b.strides) text += ' ' + std::to_string(s);
  text += " /";
  for (auto const t : b.turns) text += ' ' + std::to_string(t);
  return text;
}

}  // namespace cleave

namespace cleave::detail {

/// How long after the two input gradients of a block the weight gradients come, the up stage's first: first
/// come, first served in the two steps of six that are left. Precondition: the four differ modulo 6.
constexpr std::array<std::uint32_t, 2> weight_delays(v_block const& b) {
  std::array<bool, 6> is_taken{};
  for (auto const begin : {b.forward_down, b.forward_up, b.input_up, b.input_down})
    is_taken[begin % 6] = true;
  std::array<std::uint32_t, 2> delay{};
  std::array<std::pair<std::uint32_t, std::uint32_t>, 16> waiting{};  // which, since when
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

/// How many passes a rank keeps at most, those of all microbatches; nothing where two passes of a rank come
/// in the same step of a period. O(ranks).
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

/// All rules with strides up to 3, the longest of which keep most and wait least.
/// Qi et al., NeurIPS 2024, §3.3 ("Pipeline Parallelism with Controllable Memory"). O(ranks) times 17,496
/// rules, of which some hundreds are left.
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
