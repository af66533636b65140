// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdlib>

namespace cleave::testing {

/// Returns true if tests run all of their cases: if CLEAVE_ALL is set in the environment, as `./dev check
/// cases` and `./dev check seeds` do. Otherwise they run some, so that `./dev test`, whose sanitizers are
/// slow, ends soon.
inline bool all_cases() {
  static bool const all = std::getenv("CLEAVE_ALL") != nullptr;
  return all;
}

/// Returns how many cases a test runs.
inline std::size_t cases(std::size_t some, std::size_t all) { return all_cases() ? all : some; }

}  // namespace cleave::testing
