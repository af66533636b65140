// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/core/printable.hpp"

namespace cleave::inline v0_2::detail {

/// Escapes names, which are arbitrary bytes, for several text formats. Printable characters come back exactly
/// when the format is parsed. All other bytes become the four visible characters `\xNN` (see
/// `is_printable_character`), so that no name can end its field or corrupt the file.

/// Returns `text` with each printable ASCII character c replaced by `quote(c)`, if that is not empty. Bytes
/// that are not printable become hexadecimal digits after `backslash`.
template <class Quote>
std::string escaped(std::string_view text, std::string_view backslash, Quote quote) {
  std::string out;
  out.reserve(text.size() + 8);
  for (std::size_t at = 0; at < text.size();) {
    auto const c = utf8_at(text, at);
    auto const bytes = text.substr(at, c.bytes);
    at += c.bytes;
    if (is_printable_character(c.code)) {
      std::string_view const instead = c.bytes == 1 ? quote(bytes[0]) : std::string_view{};
      out += instead.empty() ? bytes : instead;
      continue;
    }
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      std::string hex;
      append_hex(hex, bytes.substr(i, 1));
      out += backslash;
      out += std::string_view(hex).substr(1);
    }
  }
  return out;
}

/// Escapes a text for the content and the quoted attributes of HTML, SVG and XML.
inline std::string escape_markup(std::string_view text) {
  return escaped(text, "\\", [](char c) -> std::string_view {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&#39;";
      default:
        return {};
    }
  });
}

/// Escapes a label between double quotes in DOT. Graphviz interprets backslash sequences and entities in
/// labels. In labels of records `|{}<>` have a meaning too; these are not escaped.
inline std::string escape_dot(std::string_view text) {
  return escaped(text, "\\\\", [](char c) -> std::string_view {
    switch (c) {
      case '"':
        return "\\\"";
      case '\\':
        return "\\\\";
      case '&':
        return "&amp;";
      default:
        return {};
    }
  });
}

/// Escapes a string between double quotes in JSON. Unlike in the other formats, every well-formed character
/// comes back exactly, including controls. Only bytes that are not UTF-8 become the characters `\xNN`.
inline std::string escape_json(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 8);
  for (std::size_t at = 0; at < text.size();) {
    auto const c = utf8_at(text, at);
    std::string hex;
    append_hex(hex, text.substr(at, 1));
    if (c.code == malformed_utf8) {
      out += '\\';
      out += hex;
    } else if (c.code == '"' || c.code == '\\') {
      out += {'\\', text[at]};
    } else if (c.code < 0x20 || c.code == 0x7f) {
      out += "\\u00";
      out += std::string_view(hex).substr(2);
    } else {
      out += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  return out;
}

}  // namespace cleave::detail
