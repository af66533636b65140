// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// Checks a precondition that only the programmer can break. If `ok` is false, prints file, line and
/// `sentence` to stderr and aborts. The check is always on, so it is for O(1) conditions only; linear checks
/// are `find_…` functions. In a constant expression, a broken precondition is a compile error.
constexpr void expects(bool ok, char const* sentence,
                       std::source_location at = std::source_location::current()) {
  if (ok) [[likely]]
    return;
  std::fprintf(stderr, "%s:%u: in %s: expected %s\n", at.file_name(), static_cast<unsigned>(at.line()),
               at.function_name(), sentence);
  std::abort();
}
}  // namespace cleave
