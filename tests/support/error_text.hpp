// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "cleave/core/error.hpp"

namespace cleave::testing {

/// Returns the message of the `Error` that `act` throws, or "accepted" if it throws none.
template <class Error = error, class Act>
std::string error_text(Act act) {
  try {
    act();
  } catch (Error const& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace cleave::testing
