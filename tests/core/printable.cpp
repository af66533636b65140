// SPDX-License-Identifier: MIT
#include "cleave/core/printable.hpp"

#include <doctest/doctest.h>

#include <string>

#include "support/nasty_names.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::string_literals;

namespace {

std::size_t characters(std::string const& text) {
  std::size_t n = 0;
  for (std::size_t at = 0; at < text.size(); ++n) at += utf8_at(text, at).bytes;
  return n;
}

std::string encode(std::uint32_t code) {
  auto const tail = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {static_cast<char>(0xe0 | code >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace

TEST_CASE("printable: leaves plain names unchanged") {
  for (auto const* name : {"", "conv1", "features/0 (Conv)", "naïve 層 🙂", "a\\b"})
    CHECK(printable(name) == name);
}

TEST_CASE("printable: shows controls and malformed bytes as hex") {
  CHECK(printable("\x1b[31mred\n") == "\\x1b[31mred\\x0a");
  CHECK(printable("a\0b"s) == "a\\x00b");
  CHECK(printable("cut \xe5\xb1") == "cut \\xe5\\xb1");
  CHECK(printable("\xc0\xaf") == "\\xc0\\xaf");
  CHECK(printable("\u202e") == "\\xe2\\x80\\xae");
  CHECK(printable("\x7f\xc2\x85") == "\\x7f\\xc2\\x85");
}

TEST_CASE("printable: returns printable characters within the limit, for each limit") {
  for (auto const& name : testing::nasty_names())
    for (std::size_t limit = 1; limit < 90; ++limit) {
      auto const text = printable(name, limit);
      CHECK(characters(text) <= limit);
      for (std::size_t at = 0; at < text.size();) {
        auto const c = utf8_at(text, at);
        REQUIRE(is_printable_character(c.code));
        at += c.bytes;
      }
    }
}

TEST_CASE("printable: keeps both ends of a long name and never cuts an escape in half") {
  CHECK(printable("abcdefghij", 10) == "abcdefghij");
  CHECK(printable("abcdefghijk", 10) == "abcde…hijk");
  CHECK(printable("abcdefghijk", 9) == "abcd…hijk");
  CHECK(printable("ab\n\n\n\nyz", 9) == "ab…yz");
  CHECK(printable("abcdef", 1) == "…");
}

TEST_CASE("utf8_at: accepts exactly the Unicode scalar values and no overlong encodings") {
  for (std::uint32_t code = 0; code < 0x110400; ++code) {
    auto const text = encode(code);
    bool const character = code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
    auto const c = utf8_at(text, 0);
    if (c.code != (character ? code : malformed_utf8) || c.bytes != (character ? text.size() : 1)) {
      CAPTURE(code);
      REQUIRE(c.code == (character ? code : malformed_utf8));
      REQUIRE(c.bytes == (character ? text.size() : 1));
    }
  }
  for (auto const* overlong : {"\xc0\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xf0\x8f\xbf\xbf"})
    CHECK(utf8_at(overlong, 0).code == malformed_utf8);
}
