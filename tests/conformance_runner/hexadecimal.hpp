// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>

namespace cleave::conformance {

/// Returns 16 hexadecimal digits, as recordings write hashes.
inline std::string hexadecimal(std::uint64_t n) {
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[n >> shift & 15];
  return digits;
}

}  // namespace cleave::conformance
