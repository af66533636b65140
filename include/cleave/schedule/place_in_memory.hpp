// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/memory_need.hpp"
#include "cleave/schedule/share_slots.hpp"

namespace cleave {

/// Where each need lies.
struct memory_layout {
  std::vector<std::uint64_t> offsets;  ///< by need, in bytes
  std::uint64_t bytes = 0;             ///< of the whole
  std::uint64_t least_bytes = 0;       ///< alive in one cell at most, rounded up: no layout takes less

  bool operator==(memory_layout const&) const = default;
};

/// Free memory of an arena that grows; a block is taken where it fits best.
class free_memory {
 public:
  /// Where `bytes` are taken. O(log blocks).
  std::uint64_t take(std::uint64_t bytes) {
    auto const best = by_size_.lower_bound({bytes, 0});
    if (best != by_size_.end()) {
      auto const [size, offset] = *best;
      remove(blocks_.find(offset));
      if (size > bytes) add(offset + bytes, size - bytes);
      return offset;
    }
    // Nothing fits: the arena grows, from its last block on if that is free.
    auto offset = bytes_;
    if (!blocks_.empty()) {
      auto const last = std::prev(blocks_.end());
      if (last->first + last->second == bytes_) {
        offset = last->first;
        remove(last);
      }
    }
    bytes_ = offset + bytes;
    return offset;
  }

  /// Gives back what was taken; it joins what is free beside it. O(log blocks).
  void give(std::uint64_t offset, std::uint64_t bytes) {
    auto next = blocks_.lower_bound(offset);
    if (next != blocks_.end() && next->first == offset + bytes) {
      bytes += next->second;
      next = remove(next);
    }
    if (next != blocks_.begin()) {
      auto const before = std::prev(next);
      if (before->first + before->second == offset) {
        offset = before->first;
        bytes += before->second;
        remove(before);
      }
    }
    add(offset, bytes);
  }

  std::uint64_t bytes() const { return bytes_; }

 private:
  using blocks = std::map<std::uint64_t, std::uint64_t>;  // size by offset

  void add(std::uint64_t offset, std::uint64_t bytes) {
    blocks_.emplace(offset, bytes);
    by_size_.emplace(bytes, offset);
  }
  blocks::iterator remove(blocks::iterator block) {
    by_size_.erase({block->second, block->first});
    return blocks_.erase(block);
  }

  blocks blocks_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> by_size_;
  std::uint64_t bytes_ = 0;
};

/// Each need in turn where it fits best, in what is free when it begins. Precondition: no fault, and sizes
/// are rounded. O(needs log needs).
inline memory_layout best_fits(std::span<memory_need const> needs) {
  std::vector<lifetime> alive;
  for (auto const& n : needs) alive.push_back(n.alive);
  std::vector<std::uint32_t> ends(needs.size());
  for (std::uint32_t i = 0; i < ends.size(); ++i) ends[i] = i;
  std::ranges::stable_sort(ends, {}, [&](std::uint32_t i) { return alive[i].last; });
  memory_layout layout{std::vector<std::uint64_t>(needs.size())};
  free_memory memory;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended)
      memory.give(layout.offsets[ends[ended]], needs[ends[ended]].bytes);
    layout.offsets[i] = memory.take(needs[i].bytes);
  }
  layout.bytes = memory.bytes();
  return layout;
}

/// The same from the end to the beginning. O(needs log needs).
inline memory_layout best_fits_backward(std::span<memory_need const> needs) {
  constexpr auto end = std::numeric_limits<std::uint32_t>::max();
  std::vector<memory_need> turned;
  for (auto const& [alive, bytes] : needs) turned.push_back({{end - alive.last, end - alive.first}, bytes});
  return best_fits(turned);
}

/// Slots for the needs of each size, as few as there can be, the slots of one size after those of another.
/// O(needs log needs).
inline memory_layout slots_by_size(std::span<memory_need const> needs) {
  std::map<std::uint64_t, std::vector<std::uint32_t>> of_size;
  for (std::uint32_t i = 0; i < needs.size(); ++i) of_size[needs[i].bytes].push_back(i);
  memory_layout layout{std::vector<std::uint64_t>(needs.size())};
  std::vector<lifetime> alive;
  for (auto const& [bytes, all] : of_size) {
    alive.clear();
    for (auto const i : all) alive.push_back(needs[i].alive);
    auto const slots = share_slots(alive);
    for (std::size_t i = 0; i < all.size(); ++i) layout.offsets[all[i]] = layout.bytes + slots[i] * bytes;
    layout.bytes += count_slots(slots) * bytes;
  }
  return layout;
}

/// How much is alive in one cell at most. O(needs log needs).
inline std::uint64_t most_alive_bytes(std::span<memory_need const> needs) {
  std::vector<std::uint32_t> ends(needs.size());
  std::vector<lifetime> alive;
  for (std::uint32_t i = 0; i < needs.size(); ++i) ends[i] = i, alive.push_back(needs[i].alive);
  std::ranges::sort(ends, {}, [&](std::uint32_t i) { return alive[i].last; });
  std::uint64_t now = 0, most = 0;
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended) now -= needs[ends[ended]].bytes;
    most = std::max(most, now += needs[i].bytes);
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
  std::array layouts{best_fits(rounded), best_fits_backward(rounded), slots_by_size(rounded)};
  auto best = std::move(*std::ranges::min_element(layouts, {}, &memory_layout::bytes));
  best.least_bytes = most_alive_bytes(rounded);
  return best;
}

}  // namespace cleave
