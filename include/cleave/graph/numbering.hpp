// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>  // std::hash

#include "cleave/graph/csr.hpp"

namespace cleave::inline v0_2::detail {

/// Makes room for one more element, so that the next `push_back` allocates nothing. Amortized O(1).
template <class T>
void make_room(std::vector<T>& list) {
  if (list.size() == list.capacity()) list.reserve((std::max)(2 * list.size(), std::size_t{4}));
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Numbers handles in the order of their first insertion. Integers that are small relative to their count are
/// looked up in an array, all other handles in a hash table with open addressing. Both take expected O(1).
template <class Handle, std::unsigned_integral Index>
class numbering {
 public:
  std::size_t size() const { return handles_.size(); }
  Handle const& operator[](Index i) const { return handles_[i]; }
  std::vector<Handle> const& handles() const { return handles_; }

  /// Reserves memory for `handles` handles in total.
  void reserve(std::size_t handles) {
    handles_.reserve(handles);
    expected_ = handles;
    if (!integral && table_.size() < 2 * handles) rebuild_table(handles);
  }

  /// Returns the number of `h`, or none.
  Index find(Handle const& h) const {
    if constexpr (integral) {
      auto const at = static_cast<std::uint64_t>(h);  // a negative handle becomes large
      if (at < array_.size() && array_[at] != none<Index>) return array_[at];
    }
    return table_.empty() ? none<Index> : table_[place(h)];
  }

  /// Returns the number of `h`. A new handle gets the next free number.
  /// \throws index_overflow if `Index` is too narrow
  Index insert(Handle const& h) {
    if constexpr (integral) {
      if (Index const known = find(h); known != none<Index>) return known;
      Index const next = narrow<Index>(handles_.size());
      if (fits_array(h)) {
        handles_.push_back(h);
        return array_[static_cast<std::size_t>(h)] = next;
      }
    }
    make_room_in_table();
    std::size_t const at = place(h);
    if (table_[at] != none<Index>) return table_[at];
    Index const next = narrow<Index>(handles_.size());
    handles_.push_back(h);  // the last allocation: if it fails, no handle is numbered
    in_table_.push_back(next);
    return table_[at] = next;
  }

 private:
  static constexpr bool integral = std::integral<Handle> && sizeof(Handle) <= sizeof(std::uint64_t);

  /// Returns true if the array has room for the new handle `h`. The array may grow to sixteen entries per
  /// handle.
  bool fits_array(Handle const& h) {
    if constexpr (integral) {
      auto const at = static_cast<std::uint64_t>(h);
      if (at >= 16 * ((std::max)(handles_.size() + 1, expected_) + 64)) return false;
      if (at >= array_.size()) array_.resize(std::bit_ceil(static_cast<std::size_t>(at) + 1), none<Index>);
      return true;
    }
    return false;
  }

  /// Returns the place of `h` in the table, or the free place where it would go. At least half of the places
  /// are free.
  std::size_t place(Handle const& h) const {
    auto const spread = static_cast<std::uint64_t>(std::hash<Handle>{}(h)) * 0x9e3779b97f4a7c15u;
    auto at = static_cast<std::size_t>(spread >> (64 - std::countr_zero(table_.size())));
    while (table_[at] != none<Index> && !(handles_[table_[at]] == h)) at = (at + 1) & (table_.size() - 1);
    return at;
  }

  /// Makes room for one more handle in the table.
  void make_room_in_table() {
    detail::make_room(in_table_);
    auto const handles = in_table_.size() + 1;
    if (table_.size() < 2 * handles)
      rebuild_table(integral ? (std::max)(2 * handles, expected_) : 2 * handles);
  }

  void rebuild_table(std::size_t handles) {
    table_.assign(std::bit_ceil(std::max<std::size_t>(2 * handles, 4)), none<Index>);
    for (Index const i : in_table_) table_[place(handles_[i])] = i;
  }

  std::vector<Handle> handles_;
  std::vector<Index> array_;     // numbers, indexed by the handle's own value
  std::vector<Index> table_;     // numbers, at hashed places; the size is a power of two
  std::vector<Index> in_table_;  // the numbers that are in the table
  std::size_t expected_ = 0;
};
}  // namespace cleave
