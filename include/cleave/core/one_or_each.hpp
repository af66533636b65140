// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A view of a list of options for ranks, stages or edges. The list is empty, has one entry for all, or has
/// one entry for each. In `per_part`, by contrast, a list of one entry is for one part only.
template <class T>
class one_or_each {
 public:
  explicit one_or_each(std::vector<T> const& list) : list_(list) {}

  /// Returns whether the list is empty, has one entry, or has `count` entries.
  bool covers(std::size_t count) const { return list_.size() <= 1 || list_.size() == count; }

  /// Returns the entry for number `i`. Precondition: the list is not empty and covers `i`.
  T const& operator[](std::size_t i) const { return list_[list_.size() == 1 ? 0 : i]; }
  /// Returns the entry for number `i`, or `T{}` if the list is empty.
  T const& of(std::size_t i) const { return list_.empty() ? nothing_said : (*this)[i]; }
  T of(std::size_t i, T otherwise) const { return list_.empty() ? otherwise : (*this)[i]; }

 private:
  static constexpr T nothing_said{};
  std::span<T const> list_;
};

}  // namespace cleave::detail
