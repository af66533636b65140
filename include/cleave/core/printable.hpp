// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/language.hpp"

namespace cleave::inline v0_2::detail {

/// A character of a text that may be invalid UTF-8.
struct utf8_character {
  std::uint32_t code;  ///< its code point, or `malformed_utf8` if no character begins here
  std::size_t bytes;   ///< its length in bytes, at least 1
};

/// The code of a byte at which no well-formed character begins.
inline constexpr std::uint32_t malformed_utf8 = 0xffffffff;

/// Returns the character that begins at `text[at]`, by table 3-7 of the Unicode standard. Overlong forms,
/// surrogates and code points above U+10FFFF are malformed. Precondition: at < text.size().
constexpr utf8_character utf8_at(std::string_view text, std::size_t at) {
  auto const byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i])) : 0u;
  };
  std::uint32_t const lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  std::size_t const bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4) return {malformed_utf8, 1};
  std::uint32_t code = lead & (0xffu >> (bytes + 1));
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {malformed_utf8, 1};
    code = code << 6 | (byte(i) & 0x3f);
  }
  bool const overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  if (overlong || (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff) return {malformed_utf8, 1};
  return {code, bytes};
}

/// Returns true if a character is displayed as itself. Returns false for malformed bytes, controls,
/// noncharacters, and characters that change the writing direction or break the line.
constexpr bool is_printable_character(std::uint32_t code) {
  if (code == malformed_utf8 || code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;
  if (code == 0x61c || code == 0xfeff || (code >= 0x200b && code <= 0x200f)) return false;
  if ((code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return false;
  return (code & 0xfffe) != 0xfffe && !(code >= 0xfdd0 && code <= 0xfdef);
}

/// Appends each byte of `bytes` in the form `\x1b`.
inline void append_hex(std::string& to, std::string_view bytes) {
  static constexpr char digit[] = "0123456789abcdef";
  for (char const c : bytes) {
    auto const b = static_cast<unsigned char>(c);
    to += {'\\', 'x', digit[b >> 4], digit[b & 15]};
  }
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Returns a name of unknown origin in a form that is fit for a terminal or a log. The result is one line of
/// well-formed UTF-8, at most `limit` characters wide. Characters that are not printable become `\xNN`, byte
/// by byte. A long text keeps both of its ends around a `…`. O(size) time, O(limit) memory.
inline std::string printable(std::string_view text, std::size_t limit = 80) {
  auto const width = [](detail::utf8_character c) {
    return detail::is_printable_character(c.code) ? 1 : 4 * c.bytes;
  };
  std::size_t total = 0;
  for (std::size_t at = 0; at < text.size();) {
    auto const c = detail::utf8_at(text, at);
    total += width(c);
    at += c.bytes;
  }
  bool const whole = total <= limit;
  std::size_t const kept = limit > 0 ? limit - 1 : 0;
  std::size_t const head = kept - kept / 2, tail = kept / 2;

  std::string out;
  bool elided = false;
  std::size_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    auto const c = detail::utf8_at(text, at);
    std::size_t const end = column + width(c);
    if (whole || end <= head || column >= total - tail) {
      if (detail::is_printable_character(c.code))
        out += text.substr(at, c.bytes);
      else
        detail::append_hex(out, text.substr(at, c.bytes));
    } else if (!elided) {
      out += "…";
      elided = true;
    }
    column = end;
    at += c.bytes;
  }
  return out;
}

/// Returns a name in single quotes for a message, in a form that is fit for a terminal. It is an object
/// because a function would lose overload resolution to `std::quoted` if the header `iomanip` is included.
inline constexpr auto quoted = [](std::string_view name) { return "'" + printable(name) + "'"; };

}  // namespace cleave
