// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <ranges>
#include <utility>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// Returns the range `f(0) … f(count - 1)`, for IRs that only know the number of their nodes and the i-th
/// one.
template <class F>
auto counted(std::size_t count, F f) {
  return std::views::iota(std::size_t{}, count) | std::views::transform(std::move(f));
}
}  // namespace cleave
