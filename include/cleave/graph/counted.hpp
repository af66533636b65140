// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <ranges>
#include <utility>

#include "cleave/core/language.hpp"

namespace cleave {

/// `f(0) … f(count - 1)`, for IRs that only say how many there are and which is the i-th.
template <class F>
auto counted(std::size_t count, F f) {
  return std::views::iota(std::size_t{}, count) | std::views::transform(std::move(f));
}
}  // namespace cleave
