// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Reads a list of options that says nothing, one thing for all, or one for each: of ranks, stages, edges.
/// It refers to the list. `per_part`, of parts, differs: there a list of one is for one part alone.
template <class T>
class one_or_each {
 public:
  explicit one_or_each(std::vector<T> const& list) : list_(list) {}

  /// Whether there is one for each of `count`, one for all, or none.
  bool covers(std::size_t count) const { return list_.size() <= 1 || list_.size() == count; }

  /// What is said for number `i`. Precondition: the list is not empty, and covers `i`.
  T const& operator[](std::size_t i) const { return list_[list_.size() == 1 ? 0 : i]; }
  /// The same, or `T{}` where nothing is said.
  T const& of(std::size_t i) const { return list_.empty() ? nothing_said : (*this)[i]; }
  T of(std::size_t i, T otherwise) const { return list_.empty() ? otherwise : (*this)[i]; }

 private:
  static constexpr T nothing_said{};
  std::span<T const> list_;
};

}  // namespace cleave::detail
