// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// A range of cells of a list during which something is kept. Both ends are included: a value that ends in a
/// cell and a value that begins there coexist.
struct lifetime {
  std::uint32_t first = 0, last = 0;

  auto operator<=>(lifetime const&) const = default;
};

/// Returns the indices of lifetimes ordered by begin, then by end. O(lifetimes log lifetimes), and
/// O(lifetimes) if they are in that order.
inline std::vector<std::uint32_t> order_of(std::span<lifetime const> all) {
  std::vector<std::uint32_t> order(all.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  if (!std::ranges::is_sorted(all))
    std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(all[i], i); });
  return order;
}

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Returns the indices of lifetimes ordered by end. O(lifetimes log lifetimes), and O(lifetimes) if the cells
/// are few for each lifetime.
inline std::vector<std::uint32_t> order_of_ends(std::span<lifetime const> all) {
  std::uint32_t last = 0;
  for (auto const& l : all) last = (std::max)(last, l.last);
  std::vector<std::uint32_t> order(all.size());
  if (last / 16 <= all.size()) {
    std::vector<std::uint32_t> before(std::size_t{last} + 2);  // by cell: the lifetimes that end earlier
    for (auto const& l : all) ++before[l.last + std::size_t{1}];
    for (std::size_t c = 1; c < before.size(); ++c) before[c] += before[c - 1];
    for (std::uint32_t i = 0; i < order.size(); ++i) order[before[all[i].last]++] = i;
    return order;
  }
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, {}, [&](std::uint32_t i) { return std::pair(all[i].last, i); });
  return order;
}

/// Assigns a slot to each lifetime so that overlapping lifetimes have different slots. In the order of
/// `order_of`, each lifetime gets the lowest free slot. The number of slots equals the most lifetimes that
/// overlap in one cell, which is minimal. Precondition: no lifetime ends before it begins. O(lifetimes log
/// lifetimes).
inline std::vector<std::uint32_t> share_slots(std::span<lifetime const> all) {
  struct taken_slot {
    std::uint32_t last, slot;
  };
  auto const ends_later = [](taken_slot a, taken_slot b) { return a.last > b.last; };
  std::vector<std::uint32_t> slots(all.size()), free;
  std::vector<taken_slot> taken;
  std::uint32_t count = 0;
  for (auto const i : order_of(all)) {
    for (; !taken.empty() && taken.front().last < all[i].first; taken.pop_back()) {
      std::ranges::pop_heap(taken, ends_later);
      free.push_back(taken.back().slot);
      std::ranges::push_heap(free, std::ranges::greater());
    }
    if (free.empty()) {
      slots[i] = count++;
    } else {
      std::ranges::pop_heap(free, std::ranges::greater());
      slots[i] = free.back();
      free.pop_back();
    }
    taken.push_back({all[i].last, slots[i]});
    std::ranges::push_heap(taken, ends_later);
  }
  return slots;
}

/// Returns the number of slots that `share_slots` has used. O(slots).
inline std::uint32_t count_slots(std::span<std::uint32_t const> slots) {
  std::uint32_t count = 0;
  for (auto const slot : slots) count = (std::max)(count, slot + 1);
  return count;
}

/// Returns the most lifetimes that overlap in one cell, which is the fewest slots possible. Precondition: no
/// lifetime ends before it begins. O(lifetimes log lifetimes).
inline std::uint32_t most_alive(std::span<lifetime const> all) {
  std::vector<std::uint32_t> begins, ends;
  for (auto const& l : all) begins.push_back(l.first), ends.push_back(l.last);
  std::ranges::sort(begins);
  std::ranges::sort(ends);
  std::size_t most = 0;
  for (std::size_t begun = 0, ended = 0; begun < begins.size(); ++begun) {
    while (ends[ended] < begins[begun]) ++ended;
    most = (std::max)(most, begun + 1 - ended);
  }
  return static_cast<std::uint32_t>(most);
}

}  // namespace cleave::detail
