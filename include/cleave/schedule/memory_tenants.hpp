// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cleave/schedule/memory_need.hpp"

namespace cleave {

/// Two needs that would lie on each other, by their numbers, and a cell in which both are kept.
struct memory_overlap {
  std::size_t first, second;
  std::uint32_t cell;

  bool operator==(memory_overlap const&) const = default;
};

/// Two needs that are kept in one cell and overlap at these offsets, or nothing. Precondition: an offset for
/// each need, none ends beyond 2^64 bytes, and none before it begins. O(needs log needs).
inline std::optional<memory_overlap> find_memory_overlap(std::span<memory_need const> needs,
                                                         std::span<std::uint64_t const> offsets) {
  std::vector<lifetime> alive;
  std::vector<std::uint32_t> ends(needs.size());
  for (std::uint32_t i = 0; i < needs.size(); ++i) ends[i] = i, alive.push_back(needs[i].alive);
  std::ranges::stable_sort(ends, {}, [&](std::uint32_t i) { return alive[i].last; });
  std::map<std::uint64_t, std::uint32_t> taken;  // by offset
  std::size_t ended = 0;
  for (auto const i : order_of(alive)) {
    for (; alive[ends[ended]].last < alive[i].first; ++ended)
      if (needs[ends[ended]].bytes > 0) taken.erase(offsets[ends[ended]]);
    if (needs[i].bytes == 0) continue;
    auto const overlap = [&](std::uint32_t other) {
      return memory_overlap{std::min<std::size_t>(i, other), std::max<std::size_t>(i, other), alive[i].first};
    };
    auto const next = taken.lower_bound(offsets[i]);
    if (next != taken.end() && next->first - offsets[i] < needs[i].bytes) return overlap(next->second);
    if (next != taken.begin())
      if (auto const before = std::prev(next); offsets[i] - before->first < needs[before->second].bytes)
        return overlap(before->second);
    taken.emplace(offsets[i], i);
  }
  return std::nullopt;
}

/// The cell after which nothing else takes the bytes of a need before it does; none where nothing did. Who
/// writes there first waits until that cell is done. Precondition: no two needs overlap, as above.
/// O(needs log needs).
inline std::vector<std::optional<std::uint32_t>> last_tenants(std::span<memory_need const> needs,
                                                              std::span<std::uint64_t const> offsets) {
  struct tenant {
    std::uint64_t end;  // of its bytes
    std::uint32_t last;
  };
  std::vector<lifetime> alive;
  for (auto const& n : needs) alive.push_back(n.alive);
  std::vector<std::optional<std::uint32_t>> before(needs.size());
  std::map<std::uint64_t, tenant> tenants;  // by offset, none overlaps another
  for (auto const i : order_of(alive)) {
    auto const begin = offsets[i], end = begin + needs[i].bytes;
    if (begin == end) continue;
    auto at = tenants.upper_bound(begin);
    if (at != tenants.begin() && std::prev(at)->second.end > begin) --at;
    while (at != tenants.end() && at->first < end) {
      auto const [from, was] = *at;
      before[i] = std::max(before[i].value_or(0), was.last);
      at = tenants.erase(at);
      if (from < begin) tenants.emplace(from, tenant{begin, was.last});
      if (was.end > end) tenants.emplace(end, was);
    }
    tenants.emplace(begin, tenant{end, alive[i].last});
  }
  return before;
}

}  // namespace cleave
