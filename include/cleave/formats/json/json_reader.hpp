// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/core/language.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/read_real.hpp"
#include "cleave/core/real.hpp"

/// The characters and escapes between the quotes of a JSON text (RFC 8259, section 7).
namespace cleave::inline v0_2::detail {

/// Returns the code point of the escape `\uXXXX` at `s[at]`. A surrogate pair is combined only if both halves
/// are present. Precondition: the escape has four hexadecimal digits.
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

/// Appends a code point to `out` as UTF-8.
inline void append_utf8(std::string& out, std::uint32_t code) {
  auto const byte = [&](std::uint32_t b) { out += static_cast<char>(static_cast<unsigned char>(b)); };
  if (code < 0x80) return byte(code);
  if (code >= 0x10000) byte(0xf0 | code >> 18), byte(0x80 | (code >> 12 & 0x3f));
  if (code >= 0x800 && code < 0x10000) byte(0xe0 | code >> 12);
  if (code >= 0x800) byte(0x80 | (code >> 6 & 0x3f));
  if (code < 0x800) byte(0xc0 | code >> 6);
  byte(0x80 | (code & 0x3f));
}

/// Returns the characters that `written` stands for. Precondition: its escapes are valid. O(size).
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

namespace cleave::inline v0_2::json {

/// A place in a JSON text: line and column from 1, in bytes, and the path from the root, such as
/// `$.nodes[3].name`.
struct place {
  std::size_t line = 1, column = 1;
  std::string path;

  bool operator==(json::place const&) const = default;
};

/// Thrown if a text is not JSON, or not of the expected form; the witness is the place.
using error = witness_error<json::place>;

}  // namespace cleave::json

namespace cleave::inline v0_2::detail {

enum class json_kind : std::uint8_t { null, boolean, number, text, array, object };

/// A JSON text (RFC 8259), parsed and validated as a whole. Strict: no repeated keys in an object,
/// well-formed UTF-8. Values are looked up in the text, which the document keeps. Parsing is one pass without
/// recursion. Memory is the text and 8 bytes per value.
class json_document {
 public:
  /// Parses a text. \throws json::error with line and column of the first mistake, also if nested deeper than
  /// `deepest`
  explicit json_document(std::string text, std::size_t deepest = 1000)
      : text_(std::move(text)), deepest_(deepest) {
    if (text_.size() >> place_bits != 0) fail(0, "the text is larger than 128 GiB");
    read();
  }

  /// Returns the number of values, numbered depth first. In an object, keys and values alternate.
  std::size_t size() const { return items_.size(); }
  json_kind what(std::size_t n) const { return static_cast<json_kind>(items_[n] & 7); }
  /// Returns one past the last value inside value `n`.
  std::size_t end(std::size_t n) const { return n + (is_container(what(n)) ? extent(n) : 1); }
  /// Returns the source text of value `n`. O(size) for a list or an object.
  std::string_view source(std::size_t n) const {
    return std::string_view(text_).substr(at(n), is_container(what(n)) ? written_size(n) : extent(n));
  }

  /// Returns the characters of text `n`.
  std::string characters(std::size_t n) const { return json_characters(inside(n)); }
  /// Returns true if `text` equals the characters of text `n`.
  bool is_text(std::size_t n, std::string_view text) const {
    auto const s = inside(n);
    if (s.size() < text.size() || (s.size() == text.size() && s != text)) return false;
    bool const escapes = s.find('\\') != std::string_view::npos;  // an escape is longer than its characters
    return escapes ? characters(n) == text : s.size() == text.size();
  }

  /// Reports an error at value `n`. \throws json::error
  [[noreturn]] void fail_at(std::size_t n, std::string const& what) const { fail(at(n), what, path_of(n)); }

 private:
  [[noreturn]] void fail(std::size_t at, std::string const& what, std::string path = {}) const {
    auto const before = std::string_view(text_).substr(0, at);
    auto const line = static_cast<std::size_t>(std::ranges::count(before, '\n'));
    auto const start = before.rfind('\n');
    auto const column = at - (start == before.npos ? 0 : start + 1) + 1;
    throw json::error("line " + std::to_string(line + 1) + ", column " + std::to_string(column) +
                          (path.empty() ? "" : ", " + printable(path, 200)) + ": " + what,
                      {line + 1, column, path});
  }

  static constexpr bool is_container(json_kind k) { return k >= json_kind::array; }
  /// Returns the place of value `n` in the text.
  std::size_t at(std::size_t n) const { return static_cast<std::size_t>((items_[n] >> 3) & most_place); }
  /// Returns the number of values from a list or an object to the last one inside, and of another value its
  /// length in the text.
  std::size_t extent(std::size_t n) const {
    auto const kept = items_[n] >> (3 + place_bits);
    return kept == beyond ? long_.find(n)->second : static_cast<std::size_t>(kept);
  }
  void set_extent(std::size_t n, std::size_t extent) {
    if (extent >= beyond) long_[n] = extent;
    auto const kept = (std::min)(static_cast<std::uint64_t>(extent), beyond) << (3 + place_bits);
    items_[n] = (items_[n] & (most_place << 3 | 7)) | kept;
  }
  std::size_t written_size(std::size_t container) const {
    auto const from = at(container);
    auto i = from;
    std::size_t open = 0;
    do {
      char const c = text_[i++];
      if (c == '{' || c == '[') ++open;
      if (c == '}' || c == ']') --open;
      for (bool text = c == '"'; text; ++i) {
        text = text_[i] != '"';
        if (text_[i] == '\\') ++i;
      }
    } while (open > 0);
    return i - from;
  }
  /// Returns the source between the quotes of text `n`.
  std::string_view inside(std::size_t n) const {
    return std::string_view(text_).substr(at(n) + 1, extent(n) - 2);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void skip_blanks() {
    for (; at_ < text_.size(); ++at_)
      if (char const c = text_[at_]; c != ' ' && c != '\n' && c != '\t' && c != '\r') return;
  }
  bool take(char c) {
    bool const there = at_ < text_.size() && text_[at_] == c;
    if (there) ++at_;
    return there;
  }
  bool take(std::string_view word) {
    bool const there = std::string_view(text_).substr(at_, word.size()) == word;
    if (there) at_ += word.size();
    return there;
  }

  void read() {
    std::vector<std::size_t> open;  // indices of the enclosing containers
    for (bool value_next = true;;) {
      skip_blanks();
      if (value_next) {
        auto const n = read_value();
        bool const container = is_container(what(n));
        if (container) open.push_back(n);
        if (open.size() > deepest_) fail(at(n), "nested deeper than " + std::to_string(deepest_));
        skip_blanks();
        bool const object = container && what(n) == json_kind::object;
        if (container && peek() != (object ? '}' : ']')) {
          if (object) read_key();
          continue;
        }
      }
      if (open.empty()) break;
      skip_blanks();
      bool const object = what(open.back()) == json_kind::object;
      if (take(object ? '}' : ']')) {
        set_extent(open.back(), items_.size() - open.back());
        if (object) check_keys(open.back());
        open.pop_back();
        value_next = false;
      } else if (take(',')) {
        skip_blanks();
        if (object) read_key();
        value_next = true;
      } else {
        fail(at_, object ? "expected ',' or '}'" : "expected ',' or ']'");
      }
    }
    if (at_ < text_.size()) fail(at_, "unexpected characters after the end of the value");
  }

  std::size_t read_value() {
    auto const from = at_;
    auto kind = json_kind::null;
    char const c = peek();
    if (c == '{' || c == '[') {
      kind = c == '{' ? json_kind::object : json_kind::array;
      ++at_;
    } else if (c == '"') {
      kind = json_kind::text;
      read_text();
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      kind = json_kind::number;
      read_number();
    } else if (take("true") || take("false")) {
      kind = json_kind::boolean;
    } else if (!take("null")) {
      bool const no_number = c == 'N' || c == 'I';
      fail(at_, at_ == text_.size() ? "expected a value, got the end of the text"
                : no_number         ? "expected a value; JSON has no NaN and no Infinity"
                                    : "expected a value");
    }
    items_.push_back(std::uint64_t{from} << 3 | static_cast<std::uint64_t>(kind));
    set_extent(items_.size() - 1, at_ - from);
    return items_.size() - 1;
  }

  void read_key() {
    if (peek() != '"') fail(at_, "expected a key in quotes");
    read_value();
    skip_blanks();
    if (!take(':')) fail(at_, "expected ':'");
  }

  void read_digits() {
    if (peek() < '0' || peek() > '9') fail(at_, "expected a digit");
    while (peek() >= '0' && peek() <= '9') ++at_;
  }
  void read_number() {
    take('-');
    if (!take('0')) read_digits();
    if (take('.')) read_digits();
    if (!take('e') && !take('E')) return;
    if (!take('+')) take('-');
    read_digits();
  }

  /// Returns true for a character that needs no check within a text.
  static bool is_plain(char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; }
  void read_text() {
    for (++at_; !take('"');) {
      if (is_plain(peek())) {
        ++at_;
        continue;
      }
      if (at_ == text_.size()) fail(at_, "a text without a closing quote");
      auto const c = utf8_at(text_, at_);
      if (c.code == malformed_utf8) fail(at_, "a byte that is not valid UTF-8");
      if (c.code < 0x20) fail(at_, "a control character within a text; write it as \\u00XX");
      at_ += c.bytes;
      if (c.code != '\\') continue;
      auto const escape = at_ - 1;
      bool const unicode = take('u');
      for (int digit = 0; unicode && digit < 4; ++digit, ++at_)
        if (std::string_view("0123456789abcdefABCDEF").find(peek()) == std::string_view::npos)
          fail(at_, "expected four hexadecimal digits");
      if (!unicode) {
        if (std::string_view("\"\\/bfnrt").find(peek()) == std::string_view::npos)
          fail(escape, "unknown escape sequence");
        ++at_;
        continue;
      }
      auto const code = json_code_at(text_, escape);
      if (code >= 0xd800 && code < 0xe000) fail(escape, "half of a surrogate pair");
      if (code > 0xffff) at_ += 6;
    }
  }

  void check_keys(std::size_t object) const {
    if (written_differently(object)) return;
    std::vector<std::pair<std::string, std::size_t>> keys;
    for (auto n = object + 1; n < end(object); n = end(n + 1)) keys.emplace_back(characters(n), n);
    std::ranges::sort(keys);
    auto const same = [](auto const& a, auto const& b) { return a.first == b.first; };
    if (auto const twice = std::ranges::adjacent_find(keys, same); twice != keys.end())
      fail(at((twice + 1)->second), "key " + quoted(twice->first) + " is repeated in its object");
  }
  /// Returns true if an object has few keys, none with an escape, and all different. Needs no allocation.
  bool written_differently(std::size_t object) const {
    std::array<std::string_view, 16> keys;
    std::size_t count = 0;
    for (auto n = object + 1; n < end(object); n = end(n + 1)) {
      auto const key = inside(n);
      if (count == keys.size() || key.find('\\') != std::string_view::npos) return false;
      for (std::size_t i = 0; i < count; ++i)
        if (keys[i] == key) return false;
      keys[count++] = key;
    }
    return true;
  }

  std::string path_of(std::size_t wanted) const {
    std::string path = "$";
    for (std::size_t n = 0; n != wanted;) {
      bool const object = what(n) == json_kind::object;
      std::size_t inside = n + 1, count = 0;
      auto const value = [&] { return object ? inside + 1 : inside; };
      for (; end(value()) <= wanted; ++count) inside = end(value());
      path += object ? "." + characters(inside) : "[" + std::to_string(count) + "]";
      n = wanted == inside ? wanted : value();  // a key has the path of its value
    }
    return path;
  }

  static constexpr int place_bits = 37;  // texts of up to 128 GiB
  static constexpr std::uint64_t most_place = (std::uint64_t{1} << place_bits) - 1, beyond = (1 << 24) - 1;

  std::string text_;
  std::size_t deepest_, at_ = 0;
  std::vector<std::uint64_t> items_;         // kind (3 bits), place (37 bits) and extent (24 bits) of a value
  std::map<std::size_t, std::size_t> long_;  // extents that do not fit
};

/// A value of a document, which must outlive it. An access of the wrong kind throws json::error with line,
/// column and path.
class json_value {
 public:
  explicit json_value(json_document const& d, std::size_t n = 0) : d_(&d), n_(n) {}

  json_kind what() const { return d_->what(n_); }
  [[noreturn]] void fail(std::string const& what) const { d_->fail_at(n_, what); }

  bool boolean() const {
    require(json_kind::boolean, "true or false");
    return source().front() == 't';
  }
  std::string text() const {
    require(json_kind::text, "a text");
    return d_->characters(n_);
  }
  /// Returns true for a number written as an integer.
  bool is_integer() const {
    if (what() != json_kind::number) return false;
    for (char const c : source())
      if (c == '.' || c == 'e' || c == 'E') return false;
    return true;
  }
  /// Returns an integer. \throws json::error if it does not fit into the type
  template <std::integral Integer = std::int64_t>
  Integer integer() const {
    Integer i{};
    auto const s = source();
    bool const read = is_integer() && std::from_chars(s.data(), s.data() + s.size(), i).ec == std::errc();
    if (!read)
      fail("expected an integer of " + std::to_string(8 * sizeof i) + " bits" +
           (std::is_unsigned_v<Integer> ? ", not negative" : "") + ", got " + printable(s, 40));
    return i;
  }
  double real() const {
    require(json_kind::number, "a number");
    double x = 0;
    auto const s = source();
    if (detail::read_real(s.data(), s.data() + s.size(), x).ec != std::errc() || !is_finite(x))
      fail("the number is out of range for a double: " + printable(s, 40));
    return x;
  }

  /// Calls `f` with each element of a list.
  template <class F>
  void each_element(F f) const {
    require(json_kind::array, "a list");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n)) f(json_value(*d_, n));
  }
  /// Calls `f` with key and value of each member of an object.
  template <class F>
  void each_member(F f) const {
    require(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1)) f(d_->characters(n), json_value(*d_, n + 1));
  }
  std::size_t size() const {
    std::size_t count = 0;
    bool const object = what() == json_kind::object;
    if (!object) require(json_kind::array, "a list");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(object ? n + 1 : n)) ++count;
    return count;
  }

  /// Returns the member with this key, or nothing. O(members).
  std::optional<json_value> find(std::string_view key) const {
    require(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1))
      if (d_->is_text(n, key)) return json_value(*d_, n + 1);
    return std::nullopt;
  }
  /// Returns the member with this key. \throws json::error if the key is missing
  json_value operator[](std::string_view key) const {
    auto const found = find(key);
    if (!found) fail("is missing the key " + quoted(key));
    return *found;
  }
  /// Checks that the member `format` of an object is this text. \throws json::error if it is missing or
  /// another
  void require_format(std::string_view name) const {
    auto const expected = "expected the format \"" + std::string(name) + "\"";
    auto const format = find("format");
    if (!format) fail("is missing the key 'format'; " + expected);
    if (format->text() != name) format->fail(expected);
  }
  /// Checks that an object has no other keys. \throws json::error at the first member with another key
  void allow(std::initializer_list<std::string_view> keys) const {
    require(json_kind::object, "an object");
    for (auto n = n_ + 1; n < d_->end(n_); n = d_->end(n + 1)) {
      bool known = false;
      for (auto const key : keys) known = known || d_->is_text(n, key);
      if (!known) json_value(*d_, n + 1).fail("unknown key " + quoted(d_->characters(n)));
    }
  }

 private:
  std::string_view source() const { return d_->source(n_); }
  void require(json_kind kind, char const* name) const {
    if (what() != kind) fail("expected " + std::string(name) + ", got " + printable(source(), 40));
  }

  json_document const* d_;
  std::size_t n_;
};

}  // namespace cleave::detail
