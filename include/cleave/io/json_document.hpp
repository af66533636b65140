// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"

namespace cleave {

/// Where something is in a JSON text: line and column from 1, in bytes; the path from the root,
/// `$.nodes[3].name`.
struct json_place {
  std::size_t line = 1, column = 1;
  std::string path;

  bool operator==(json_place const&) const = default;
};

/// A text that is no JSON, or not the JSON that is asked for. The witness: the place.
class json_error : public witness_error<json_place> {
 public:
  json_error(json_place const& at, std::string const& what)
      : witness_error("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                          (at.path.empty() ? "" : ", " + printable(at.path, 200)) + ": " + what,
                      at) {}
};

enum class json_kind : std::uint8_t { null, boolean, number, text, array, object };

/// A JSON text (RFC 8259), checked as a whole: strict, no key twice in an object, well-formed UTF-8. Values
/// are looked up in the text, which the document keeps. Reading is one pass without recursion; memory is the
/// text and 32 bytes a value.
class json_document {
 public:
  /// \throws json_error with the line and column of the first mistake; nesting beyond `deepest` is one.
  explicit json_document(std::string text, std::size_t deepest = 1000)
      : text_(std::move(text)), deepest_(deepest) {
    read();
  }

  struct item {
    json_kind what;
    std::size_t at, size;  ///< its bytes in the text
    std::size_t end;       ///< one past the last item inside it
  };
  /// Every value, depth first; of an object keys and values alternate.
  std::vector<item> const& items() const { return items_; }
  std::string_view source(std::size_t n) const {
    return std::string_view(text_).substr(items_[n].at, items_[n].size);
  }

  /// The characters of text `n`.
  std::string characters(std::size_t n) const {
    auto const s = source(n).substr(1, items_[n].size - 2);
    std::string out;
    for (std::size_t i = 0; i < s.size(); ++i) {
      if (s[i] != '\\') {
        out += s[i];
      } else if (s[++i] == 'u') {
        append_utf8(out, code_at(s, i - 1));
        i += code_at(s, i - 1) > 0xffff ? 10 : 4;
      } else {
        auto const escape = std::string_view("bfnrt").find(s[i]);
        out += escape == std::string_view::npos ? s[i] : "\b\f\n\r\t"[escape];
      }
    }
    return out;
  }

  /// \throws json_error, at value `n`.
  [[noreturn]] void fail_at(std::size_t n, std::string const& what) const {
    fail(items_[n].at, what, path_of(n));
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string const& what, std::string path = {}) const {
    auto const before = std::string_view(text_).substr(0, at);
    auto const line = static_cast<std::size_t>(std::ranges::count(before, '\n'));
    auto const start = before.rfind('\n');
    throw json_error({line + 1, at - (start == before.npos ? 0 : start + 1) + 1, std::move(path)}, what);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\n\r").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool take(std::string_view word) {
    bool const there = std::string_view(text_).substr(at_, word.size()) == word;
    if (there) at_ += word.size();
    return there;
  }

  void read() {
    std::vector<std::size_t> open;  // items
    for (bool value_next = true;;) {
      skip_blanks();
      if (value_next) {
        auto const n = read_value();
        bool const container = items_[n].what >= json_kind::array;
        if (container) open.push_back(n);
        if (open.size() > deepest_) fail(items_[n].at, "nested deeper than " + std::to_string(deepest_));
        skip_blanks();
        bool const object = container && items_[n].what == json_kind::object;
        if (container && peek() != (object ? '}' : ']')) {
          if (object) read_key();
          continue;
        }
      }
      if (open.empty()) break;
      skip_blanks();
      auto& top = items_[open.back()];
      bool const object = top.what == json_kind::object;
      if (take(object ? "}" : "]")) {
        top.end = items_.size(), top.size = at_ - top.at;
        if (object) check_keys(open.back());
        open.pop_back();
        value_next = false;
      } else if (take(",")) {
        skip_blanks();
        if (object) read_key();
        value_next = true;
      } else {
        fail(at_, object ? "expected ',' or '}'" : "expected ',' or ']'");
      }
    }
    if (at_ < text_.size()) fail(at_, "something after the end of the value");
  }

  std::size_t read_value() {
    auto const n = items_.size();
    item i{json_kind::null, at_, 0, n + 1};
    char const c = peek();
    if (c == '{' || c == '[') {
      i.what = c == '{' ? json_kind::object : json_kind::array;
      ++at_;
    } else if (c == '"') {
      i.what = json_kind::text;
      read_text();
    } else if (take("true") || take("false")) {
      i.what = json_kind::boolean;
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      i.what = json_kind::number;
      read_number();
    } else if (!take("null")) {
      fail(at_, "expected a value");
    }
    i.size = at_ - i.at;
    items_.push_back(i);
    return n;
  }

  void read_key() {
    if (peek() != '"') fail(at_, "expected a key in quotes");
    read_value();
    skip_blanks();
    if (!take(":")) fail(at_, "expected ':'");
  }

  void read_digits() {
    if (peek() < '0' || peek() > '9') fail(at_, "expected a digit");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }
  void read_number() {
    take("-");
    if (!take("0")) read_digits();
    if (take(".")) read_digits();
    if (!take("e") && !take("E")) return;
    if (!take("+")) take("-");
    read_digits();
  }

  void read_text() {
    for (++at_; !take("\"");) {
      if (at_ == text_.size()) fail(at_, "a text without its end");
      auto const c = utf8_at(text_, at_);
      if (c.code == malformed_utf8) fail(at_, "a byte that is no UTF-8");
      if (c.code < 0x20) fail(at_, "a control character within a text; write it as \\u00XX");
      at_ += c.bytes;
      if (c.code != '\\') continue;
      auto const escape = at_ - 1;
      bool const unicode = take("u");
      for (int digit = 0; unicode && digit < 4; ++digit, ++at_)
        if (std::string_view("0123456789abcdefABCDEF").find(peek()) == std::string_view::npos)
          fail(at_, "expected four hexadecimal digits");
      if (!unicode) {
        if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos)
          fail(escape, "no such escape");
        ++at_;
        continue;
      }
      auto const code = code_at(text_, escape);
      if (code >= 0xd800 && code < 0xe000) fail(escape, "half of a surrogate pair");
      if (code > 0xffff) at_ += 6;
    }
  }

  /// The code point that the escape `\uXXXX` at `s[at]` begins; above the half of a pair only if both are
  /// there.
  static std::uint32_t code_at(std::string_view s, std::size_t at) {
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
  static void append_utf8(std::string& out, std::uint32_t code) {
    auto const byte = [&](std::uint32_t b) { out += static_cast<char>(static_cast<unsigned char>(b)); };
    if (code < 0x80) return byte(code);
    if (code >= 0x10000) byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f));
    if (code >= 0x800 && code < 0x10000) byte(0xe0 | code >> 12);
    if (code >= 0x800) byte(0x80 | (code >> 6 & 0x3f));
    if (code < 0x800) byte(0xc0 | code >> 6);
    byte(0x80 | (code & 0x3f));
  }

  void check_keys(std::size_t object) const {
    std::vector<std::pair<std::string, std::size_t>> keys;
    for (auto n = object + 1; n < items_[object].end; n = items_[n + 1].end)
      keys.emplace_back(characters(n), n);
    std::ranges::sort(keys);
    auto const same = [](auto const& a, auto const& b) { return a.first == b.first; };
    if (auto const twice = std::ranges::adjacent_find(keys, same); twice != keys.end())
      fail(items_[(twice + 1)->second].at,
           "key " + quoted(twice->first) + " for the second time in its object");
  }

  std::string path_of(std::size_t wanted) const {
    std::string path = "$";
    for (std::size_t n = 0; n != wanted;) {
      bool const object = items_[n].what == json_kind::object;
      std::size_t inside = n + 1, count = 0;
      auto const value = [&] { return object ? inside + 1 : inside; };
      for (; items_[value()].end <= wanted; ++count) inside = items_[value()].end;
      path += object ? "." + characters(inside) : "[" + std::to_string(count) + "]";
      n = wanted == inside ? wanted : value();  // a key is at the place of its value
    }
    return path;
  }

  std::string text_;
  std::size_t deepest_, at_ = 0;
  std::vector<item> items_;  // depth first; of an object keys and values alternate
};

}  // namespace cleave
