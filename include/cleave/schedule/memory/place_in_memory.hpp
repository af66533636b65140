// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/memory/free_memory.hpp"
#include "cleave/schedule/memory/memory_need.hpp"
#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave::detail {

/// Where each need lies.
struct memory_layout {
  std::vector<std::uint64_t> offsets;  ///< by need, in bytes
  std::uint64_t bytes = 0;             ///< of the whole
  std::uint64_t least_bytes = 0;       ///< alive in one cell at most, rounded up: no layout takes less

  bool operator==(memory_layout const&) const = default;
};

/// Each need in turn where it fits well, in what is free when it begins. Precondition: no fault, and sizes
/// are rounded. O(needs log needs).
inline memory_layout good_fits(std::span<memory_need const> needs) {
  std::vector<lifetime> alive;
  for (auto const& n : needs) alive.push_back(n.alive);
  auto const ends = order_of_ends(alive);
  memory_layout layout{std::vector<std::uint64_t>(needs.size())};
  std::vector<std::uint32_t> blocks(needs.size());
  free_memory memory;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended) memory.give(blocks[ends[ended]]);
    blocks[i] = memory.take(needs[i].bytes);
    layout.offsets[i] = memory.offset_of(blocks[i]);
  }
  layout.bytes = memory.bytes();
  return layout;
}

/// The same from the end to the beginning. O(needs log needs).
inline memory_layout good_fits_backward(std::span<memory_need const> needs) {
  constexpr auto end = (std::numeric_limits<std::uint32_t>::max)();
  std::vector<memory_need> turned;
  for (auto const& [alive, bytes] : needs) turned.push_back({{end - alive.last, end - alive.first}, bytes});
  return good_fits(turned);
}

/// Slots for the needs of each size, as few as there can be, the slots of one size after those of another.
/// O(needs log needs).
inline memory_layout slots_by_size(std::span<memory_need const> needs) {
  std::vector<std::uint32_t> order(needs.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(needs[i].bytes, i); });
  memory_layout layout{std::vector<std::uint64_t>(needs.size())};
  std::vector<lifetime> alive;
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    auto const bytes = needs[order[first]].bytes;
    for (alive.clear(); last < order.size() && needs[order[last]].bytes == bytes; ++last)
      alive.push_back(needs[order[last]].alive);
    auto const slots = share_slots(alive);
    for (auto i = first; i < last; ++i) layout.offsets[order[i]] = layout.bytes + slots[i - first] * bytes;
    layout.bytes += count_slots(slots) * bytes;
  }
  return layout;
}

/// How much is alive in one cell at most. O(needs log needs).
inline std::uint64_t most_alive_bytes(std::span<memory_need const> needs) {
  std::vector<lifetime> alive;
  for (auto const& n : needs) alive.push_back(n.alive);
  auto const ends = order_of_ends(alive);
  std::uint64_t now = 0, most = 0;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended) now -= needs[ends[ended]].bytes;
    most = (std::max)(most, now += needs[i].bytes);
  }
  return most;
}

/// Where needs lie so that none that are kept in one cell overlap: the best of three layouts, `best_fits`
/// from the beginning and from the end, and `slots_by_size`. Where all are of one size, no layout is smaller;
/// in general the smallest is NP-hard to find. Offsets are multiples of `alignment`, a power of two. O(needs
/// log needs). \throws memory_need_error
inline memory_layout place_in_memory(std::span<memory_need const> needs, std::uint64_t alignment = 1) {
  if (auto const fault = find_memory_need_fault(needs, alignment)) throw memory_need_error(*fault);
  std::vector<memory_need> rounded(needs.begin(), needs.end());
  for (auto& n : rounded) n.bytes = rounded_up(n.bytes, alignment);
  auto const least = most_alive_bytes(rounded);
  auto best = slots_by_size(rounded);
  for (auto* const layout_of : {good_fits, good_fits_backward}) {
    if (best.bytes == least) break;
    if (auto other = layout_of(rounded); other.bytes < best.bytes) best = std::move(other);
  }
  best.least_bytes = least;
  return best;
}

}  // namespace cleave::detail
