// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "cleave/core/printable.hpp"

namespace cleave::detail {

/// Names are arbitrary bytes. In each format below, all that shows comes back exactly when parsed; what does
/// not show (see `shows`) becomes the four visible characters `\xNN`, so that no name can leave its place or
/// break the file.

/// `text` with each character that shows passed through `quote`, and all else as hex after `backslash`.
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

/// For the text and for quoted attributes of HTML, SVG and XML.
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

/// For a label between double quotes in DOT. Graphviz replaces backslash sequences and entities in labels,
/// and `|{}<>` have a meaning in records.
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

/// For a string between double quotes in JSON. Unlike elsewhere every well-formed character comes back
/// exactly, controls too; only bytes that are no UTF-8 become the characters `\xNN`.
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
