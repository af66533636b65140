// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/schedule/memory/pass_lifetimes.hpp"
#include "cleave/schedule/memory/share_slots.hpp"
#include "cleave/schedule/model/schedule.hpp"

namespace cleave::detail {

/// What has a slot of its own.
enum class slot_grain : std::uint8_t {
  stage_and_microbatch,  ///< what one forward pass made
  microbatch,            ///< what all stages of a rank made for a microbatch, as long as any of it is kept
};

/// What a forward pass made, how long its slot is taken, and which that is.
struct activation_slot {
  pass_lifetime pass;
  std::uint32_t slot = 0;

  bool operator==(activation_slot const&) const = default;
};

struct activation_slots {
  std::uint32_t count = 0;
  std::vector<activation_slot> passes;  ///< by stage, then microbatch

  bool operator==(activation_slots const&) const = default;
};

/// Slots for what the forward passes of some stages of a rank make: as few as there can be, the lowest that
/// is free for each. O(actions log actions). \throws lifetime_error
inline activation_slots slots_of_activations(schedule const& s, rank_id rank,
                                             std::span<stage_id const> stages,
                                             slot_grain grain = slot_grain::stage_and_microbatch) {
  auto const passes = pass_lifetimes(s, rank, stages);
  bool const together = grain == slot_grain::microbatch;
  std::vector<lifetime> alive(together && !passes.empty() ? s.microbatches : passes.size());
  auto const number = [&](std::size_t p) { return together ? std::size_t{index(passes[p].microbatch)} : p; };
  for (std::size_t p = 0; p < passes.size(); ++p) {
    auto& all = alive[number(p)];
    bool const is_first = p < alive.size();
    all.first = is_first ? passes[p].alive.first : (std::min)(all.first, passes[p].alive.first);
    all.last = is_first ? passes[p].alive.last : (std::max)(all.last, passes[p].alive.last);
  }
  auto const slots = share_slots(alive);
  activation_slots found{count_slots(slots), {}};
  for (std::size_t p = 0; p < passes.size(); ++p) {
    auto const& l = alive[number(p)];
    found.passes.push_back({{passes[p].stage, passes[p].microbatch, l}, slots[number(p)]});
  }
  return found;
}

}  // namespace cleave::detail
