// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/language.hpp"

/// What stands between the quotes of a JSON text (RFC 8259, §7): characters and escapes.
namespace cleave::detail {

/// The code point that the escape `\uXXXX` at `s[at]` begins; above the half of a pair only if both are
/// there. Precondition: four hexadecimal digits.
inline std::uint32_t json_code_at(std::string_view s, std::size_t at) {
  auto const unit = [&](std::size_t i) {
    std::uint32_t code = 0;
    std::from_chars(s.data() + i + 2, s.data() + i + 6, code, 16);
    return code;
  };
  auto const high = unit(at);
  bool const pair = high >= 0xd800 && high < 0xdc00 && s.substr(at + 6, 2) == "\\u";
  auto const low = pair && at + 12 <= s.size() ? unit(at + 6) : 0u;
  return low >= 0xdc00 && low < 0xe000 ? 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00) : high;
}

/// Puts a code point at the end of `out`.
inline void append_utf8(std::string& out, std::uint32_t code) {
  auto const byte = [&](std::uint32_t b) { out += static_cast<char>(static_cast<unsigned char>(b)); };
  if (code < 0x80) return byte(code);
  if (code >= 0x10000) byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f));
  if (code >= 0x800 && code < 0x10000) byte(0xe0 | code >> 12);
  if (code >= 0x800) byte(0x80 | (code >> 6 & 0x3f));
  if (code < 0x800) byte(0xc0 | code >> 6);
  byte(0x80 | (code & 0x3f));
}

/// The characters that `written` stands for. Precondition: its escapes are sound. O(size).
inline std::string json_characters(std::string_view written) {
  if (written.find('\\') == std::string_view::npos) return std::string(written);
  std::string out;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (written[i] != '\\') {
      out += written[i];
    } else if (written[++i] == 'u') {
      auto const code = json_code_at(written, i - 1);
      append_utf8(out, code);
      i += code > 0xffff ? 10U : 4U;
    } else {
      auto const escape = std::string_view("bfnrt").find(written[i]);
      out += escape == std::string_view::npos ? written[i] : "\b\f\n\r\t"[escape];
    }
  }
  return out;
}

}  // namespace cleave::detail
