// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2::detail {

/// Returns true if `text` is well-formed UTF-8 throughout. O(size); ASCII is checked eight bytes at a time.
inline bool is_utf8(std::string_view text) {
  auto const eight_ascii = [&](std::size_t at) {
    std::uint64_t bytes = 0;
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    return (bytes & 0x8080808080808080u) == 0;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (text.size() - at >= 8 && eight_ascii(at)) {
      at += 8;
      continue;
    }
    auto const c = utf8_at(text, at);
    if (c.code == malformed_utf8) return false;
    at += c.bytes;
  }
  return true;
}

}  // namespace cleave::detail
