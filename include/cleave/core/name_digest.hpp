// SPDX-License-Identifier: MIT
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2 {

/// An FNV-1a hash over a sequence of names. It detects accidental differences; it is not secure against
/// deliberate collisions.
class name_digest {
 public:
  name_digest& add(std::string_view name) {
    for (char const c : name) add(static_cast<unsigned char>(c));
    add(0xff);  // never occurs in UTF-8: marks the end of the name
    return *this;
  }

  /// Returns the hash as 16 hexadecimal digits.
  std::string text() const {
    std::string digits;
    for (int shift = 60; shift >= 0; shift -= 4) digits += "0123456789abcdef"[value_ >> shift & 15];
    return digits;
  }

 private:
  void add(unsigned char c) { value_ = (value_ ^ c) * 0x100000001b3; }

  std::uint64_t value_ = 0xcbf29ce484222325;
};
}  // namespace cleave
