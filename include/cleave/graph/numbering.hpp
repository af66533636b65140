// SPDX-License-Identifier: MIT
#pragma once
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>  // std::hash

#include "cleave/graph/concepts.hpp"
#include "cleave/graph/csr.hpp"

namespace cleave {

/// Numbers handles in the order in which they come. Small integers are looked up in an array, all others in a hash table
/// with open addressing; both are expected O(1).
template <class Handle, std::unsigned_integral Index>
class numbering {
 public:
  std::size_t size() const { return handles_.size(); }
  Handle const& operator[](Index i) const { return handles_[i]; }

  /// The number of `h`, or none.
  Index find(Handle const& h) const {
    if (is_small(h)) return small_at(h);
    return table_.empty() ? none<Index> : table_[place(h)];
  }

  /// The number of `h`; a new handle gets the next one. `second` tells whether it is new.
  std::pair<Index, bool> insert(Handle const& h) {
    if (Index const known = find(h); known != none<Index>) return {known, false};
    Index const next = narrow<Index>(handles_.size());
    handles_.push_back(h);
    if (is_small(h))
      remember_small(h, next);
    else
      remember_hashed(h, next);
    return {next, true};
  }

 private:
  static constexpr bool integral = std::integral<Handle> && !std::same_as<Handle, bool>;
  static constexpr std::uint64_t small_limit = std::uint64_t{1} << 24;

  static bool is_small(Handle const& h) {
    if constexpr (integral)
      return std::cmp_greater_equal(h, 0) && std::cmp_less(h, small_limit);
    else
      return false;
  }
  Index small_at(Handle const& h) const {
    if constexpr (integral) {
      auto const at = static_cast<std::size_t>(h);
      return at < small_.size() ? small_[at] : none<Index>;
    } else {
      return none<Index>;
    }
  }
  void remember_small(Handle const& h, Index number) {
    if constexpr (integral) {
      auto const at = static_cast<std::size_t>(h);
      if (at >= small_.size()) small_.resize(std::bit_ceil(at + 1), none<Index>);
      small_[at] = number;
    }
  }

  /// The place in the table where `h` is, or where it would go. The table is never full.
  std::size_t place(Handle const& h) const {
    auto const spread = static_cast<std::uint64_t>(std::hash<Handle>{}(h)) * 0x9e3779b97f4a7c15u;
    auto at = static_cast<std::size_t>(spread >> (64 - std::countr_zero(table_.size())));
    while (table_[at] != none<Index> && !(handles_[table_[at]] == h)) at = (at + 1) & (table_.size() - 1);
    return at;
  }
  void remember_hashed(Handle const& h, Index number) {
    if (table_.size() < 2 * handles_.size()) {
      table_.assign(std::bit_ceil(4 * handles_.size() + 8), none<Index>);
      for (std::size_t i = 0; i + 1 < handles_.size(); ++i)
        if (!is_small(handles_[i])) table_[place(handles_[i])] = static_cast<Index>(i);
    }
    table_[place(h)] = number;
  }

  std::vector<Handle> handles_;
  std::vector<Index> small_;  // by the handle's own value
  std::vector<Index> table_;  // a power of two of places
};

}  // namespace cleave
