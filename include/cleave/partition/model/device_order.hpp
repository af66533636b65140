// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>

#include "cleave/core/language.hpp"

namespace cleave {

/// Whether part i has to be device i, where devices differ in speed, link or memory.
enum class device_order : std::uint8_t {
  given,  ///< it has
  any,    ///< devices stand in the pipeline as is best
};
}  // namespace cleave
