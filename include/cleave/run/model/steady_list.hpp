// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "cleave/core/language.hpp"

namespace cleave::detail {

/// Things that others point to, and that cannot be moved perhaps: each stays where it is made, however many
/// follow. They go in the order in which they came.
template <class T>
class steady_list {
 public:
  std::size_t size() const { return places_.size(); }

  /// Precondition: there is such a one.
  T& operator[](std::size_t i) { return *places_[i].front(); }
  T const& operator[](std::size_t i) const { return *places_[i].front(); }

  /// One more, made of `from`. Where that throws, there is none more.
  template <class... From>
  T& emplace(From&&... from) {
    std::vector<std::optional<T>> place(1);
    T& made = place.front().emplace(std::forward<From>(from)...);
    places_.push_back(std::move(place));
    return made;
  }

  /// Lets all go but the first `count`. Precondition: so many are there.
  void keep_first(std::size_t count) {
    places_.erase(places_.begin() + static_cast<std::ptrdiff_t>(count), places_.end());
  }

 private:
  std::vector<std::vector<std::optional<T>>> places_;  // one in each
};

}  // namespace cleave::detail
