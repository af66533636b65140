// SPDX-License-Identifier: MIT
#pragma once
#include <cstdio>
#include <cstdlib>
#include <source_location>

#include "cleave/core/language.hpp"

namespace cleave {

/// A precondition that only the programmer can break: prints file, line and sentence to stderr, then aborts.
/// Always on, therefore for O(1) conditions only; a linear check is a `find_…` function. In a constant
/// expression a broken one stops compilation.
constexpr void expects(bool ok, char const* sentence,
                       std::source_location at = std::source_location::current()) {
  if (ok) [[likely]]
    return;
  std::fprintf(stderr, "%s:%u: in %s: expected %s\n", at.file_name(), static_cast<unsigned>(at.line()),
               at.function_name(), sentence);
  std::abort();
}
}  // namespace cleave
