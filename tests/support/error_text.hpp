// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "cleave/core/error.hpp"

namespace cleave::testing {

/// What the error of this type says that `act` ends with; "accepted" where there is none.
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
