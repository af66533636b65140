// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/memory/slot_plan.hpp"

namespace cleave::detail {

/// Finds what a rank keeps by what it is.
class arena_places {
 public:
  /// Refers to the slots. O(values log values).
  explicit arena_places(rank_slots const& slots) : slots_(slots) {
    for (std::uint32_t i = 0; i < slots.values.size(); ++i) {
      auto const& v = slots.values[i];
      order_.push_back({key_of(v.use, v.stage, v.microbatch, v.peer), i});
    }
    std::ranges::sort(order_);
  }

  /// The first of that use, or null: there may be none, and of what was offloaded there are two.
  slot_value const* find(slot_use use, stage_id s, microbatch_id m,
                         stage_id peer = stage_id{0xffffffff}) const {
    auto const key = key_of(use, s, m, peer);
    auto const at = std::ranges::lower_bound(order_, std::pair(key, std::uint32_t{0}));
    return at != order_.end() && at->first == key ? &slots_.values[at->second] : nullptr;
  }

  /// The one that is there in `cell`, or null.
  slot_value const* find_in(slot_use use, stage_id s, microbatch_id m, std::uint32_t cell) const {
    auto const key = key_of(use, s, m, stage_id{0xffffffff});
    auto at = std::ranges::lower_bound(order_, std::pair(key, std::uint32_t{0}));
    for (; at != order_.end() && at->first == key; ++at) {
      auto const& v = slots_.values[at->second];
      if (v.alive.first <= cell && cell <= v.alive.last) return &v;
    }
    return nullptr;
  }

 private:
  using value_key = std::array<std::uint32_t, 4>;
  static value_key key_of(slot_use use, stage_id s, microbatch_id m, stage_id peer) {
    return {static_cast<std::uint32_t>(use), index(s), index(m), index(peer)};
  }

  rank_slots const& slots_;
  std::vector<std::pair<value_key, std::uint32_t>> order_;
};

}  // namespace cleave::detail
