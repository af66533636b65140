// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cleave/core/error.hpp"

namespace cleave::testing {

/// What `f` returns, or nothing where it refuses the data.
template <class F>
auto unless_refused(F f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (error const&) {
    return std::nullopt;
  }
}

}  // namespace cleave::testing
