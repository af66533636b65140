// SPDX-License-Identifier: MIT
#pragma once
#include <string>

#include "cleave/core/ids.hpp"

namespace cleave::inline v0_2 {

/// Returns `stage 3`, or `the caller`.
inline std::string stage_text(stage_id s) {
  return s == the_caller ? "the caller" : "stage " + std::to_string(index(s));
}
}  // namespace cleave
