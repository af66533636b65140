// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cleave/schedule/memory/memory_need.hpp"
#include "cleave/schedule/memory/share_slots.hpp"

namespace cleave::detail {

/// Who has had each byte last, of needs that come one after the other: a tree over the places where needs
/// begin and end.
class last_tenant_tree {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// Refers to both. O(needs log needs).
  last_tenant_tree(std::span<memory_need const> needs, std::span<std::uint64_t const> offsets)
      : needs_(needs), offsets_(offsets) {
    for (std::size_t i = 0; i < needs.size(); ++i) {
      places_.push_back(offsets[i]);
      places_.push_back(offsets[i] + needs[i].bytes);
    }
    std::ranges::sort(places_);
    places_.erase(std::ranges::unique(places_).begin(), places_.end());
    leaves_ = std::bit_ceil(places_.size() + 1);
    whole_.assign(2 * leaves_, none);
    inside_.assign(2 * leaves_, none);
  }

  /// Of those that have had any byte of need `i`, the one that is kept the longest. O(log needs).
  std::uint32_t of(std::uint32_t i) const {
    auto left = first_leaf(i), right = last_leaf(i) + 1;
    if (left >= right) return none;
    auto found = none;
    for (auto const leaf : {left, right - 1})
      for (auto node = leaf; node > 0; node /= 2) found = later(found, whole_[node]);
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) found = later(found, inside_[left++]);
      if (right % 2 == 1) found = later(found, inside_[--right]);
    }
    return found;
  }

  /// Need `i` has its bytes from now on. O(log needs).
  void add(std::uint32_t i) {
    auto left = first_leaf(i), right = last_leaf(i) + 1;
    if (left >= right) return;
    auto const first = left, last = right - 1;
    auto const take = [&](std::size_t node) {
      whole_[node] = later(whole_[node], i);
      inside_[node] = later(inside_[node], i);
    };
    for (; left < right; left /= 2, right /= 2) {
      if (left % 2 == 1) take(left++);
      if (right % 2 == 1) take(--right);
    }
    for (auto const leaf : {first, last})
      for (auto node = leaf / 2; node > 0; node /= 2)
        inside_[node] = later(whole_[node], later(inside_[2 * node], inside_[2 * node + 1]));
  }

 private:
  std::size_t leaf_at(std::uint64_t place) const {
    return leaves_ + static_cast<std::size_t>(std::ranges::lower_bound(places_, place) - places_.begin());
  }
  std::size_t first_leaf(std::uint32_t i) const { return leaf_at(offsets_[i]); }
  std::size_t last_leaf(std::uint32_t i) const { return leaf_at(offsets_[i] + needs_[i].bytes) - 1; }
  std::uint32_t later(std::uint32_t a, std::uint32_t b) const {
    if (a == none || b == none) return a == none ? b : a;
    return needs_[b].alive.last > needs_[a].alive.last ? b : a;
  }

  std::span<memory_need const> needs_;
  std::span<std::uint64_t const> offsets_;
  std::vector<std::uint64_t> places_;
  std::size_t leaves_ = 0;
  std::vector<std::uint32_t> whole_, inside_;  ///< the latest in all bytes of a node, and in any
};

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
  for (auto const& n : needs) alive.push_back(n.alive);
  last_tenant_tree tenants(needs, offsets);
  for (auto const i : order_of(alive)) {
    auto const other = tenants.of(i);
    if (other != last_tenant_tree::none && alive[other].last >= alive[i].first)
      return memory_overlap{(std::min)(i, other), (std::max)(i, other), alive[i].first};
    tenants.add(i);
  }
  return std::nullopt;
}

/// The cell after which nothing else takes the bytes of a need before it does; none where nothing did. Who
/// writes there first waits until that cell is done. Precondition: no two needs overlap, as above.
/// O(needs log needs).
inline std::vector<std::optional<std::uint32_t>> last_tenants(std::span<memory_need const> needs,
                                                              std::span<std::uint64_t const> offsets) {
  std::vector<lifetime> alive;
  for (auto const& n : needs) alive.push_back(n.alive);
  std::vector<std::optional<std::uint32_t>> before(needs.size());
  last_tenant_tree tenants(needs, offsets);
  for (auto const i : order_of(alive)) {
    if (auto const other = tenants.of(i); other != last_tenant_tree::none) before[i] = alive[other].last;
    tenants.add(i);
  }
  return before;
}

}  // namespace cleave::detail
