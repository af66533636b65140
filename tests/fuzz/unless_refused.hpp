// SPDX-License-Identifier: MIT
#pragma once
#include <optional>

#include "cleave/core/error.hpp"

namespace cleave::testing {

/// Returns the result of `f`, or nullopt if it rejects the data.
template <class F>
auto unless_refused(F f) -> std::optional<decltype(f())> {
  try {
    return f();
  } catch (error const&) {
    return std::nullopt;
  }
}

}  // namespace cleave::testing
