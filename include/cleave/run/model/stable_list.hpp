// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A growing list whose elements never move, so that pointers to them stay valid. Elements need not be
/// movable.
template <class T>
class stable_list {
 public:
  std::size_t size() const { return places_.size(); }

  /// Returns element `i`. Precondition: `i` < `size()`.
  T& operator[](std::size_t i) { return *places_[i].front(); }
  T const& operator[](std::size_t i) const { return *places_[i].front(); }

  /// Appends an element made of `from`. If its constructor throws, the list is unchanged.
  template <class... From>
  T& emplace(From&&... from) {
    std::vector<std::optional<T>> place(1);
    T& made = place.front().emplace(std::forward<From>(from)...);
    places_.push_back(std::move(place));
    return made;
  }

  /// Removes all elements after the first `count`. Precondition: `count` is at most `size()`.
  void keep_first(std::size_t count) {
    places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(count), places_.end());
  }

 private:
  std::vector<std::vector<std::optional<T>>> places_;  // each inner vector has one element
};

}  // namespace cleave::detail
