// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cleave/core/escape.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/real.hpp"

namespace cleave::inline v0_2::json {

/// Writes one JSON document from front to back. Wrong nesting and misplaced keys are programming errors and
/// abort. Data cannot make the document ill-formed. Memory is the text, and a byte per nesting level.
class writer {
 public:
  /// `indented`: one item per line and two spaces per level; `compact`: a single line.
  enum class layout : std::uint8_t { compact, indented };
  explicit writer(layout l = layout::compact) : layout_(l) {}

  json::writer& open_object() { return open('{', '}'); }
  json::writer& close_object() { return close('}'); }
  json::writer& open_array() { return open('[', ']'); }
  json::writer& close_array() { return close(']'); }

  /// Writes the key of the next member.
  json::writer& key(std::string_view name) {
    expects(!level_.empty() && level_.back() == '}' && !keyed_,
            "json::writer: a key must be in an object, once per member");
    separate();
    quote(name);
    text_ += layout_ == layout::indented ? ": " : ":";
    keyed_ = true;
    return *this;
  }

  json::writer& value(std::string_view s) {
    begin_value();
    quote(s);
    return *this;
  }
  json::writer& value(char const* s) { return value(std::string_view(s)); }
  json::writer& value(bool b) { return raw(b ? "true" : "false"); }
  json::writer& null() { return raw("null"); }

  template <std::integral Integer>
    requires(!std::same_as<Integer, bool> && !std::same_as<Integer, char>)
  json::writer& value(Integer i) {
    return number(i);
  }
  /// Writes the shortest text that reads back as the same double; null if the number is not finite, since
  /// JSON has no such numbers.
  template <std::floating_point Float>
  json::writer& value(Float x) {
    return is_finite(x) ? number(x) : null();
  }

  template <class Value>
  json::writer& member(std::string_view name, Value const& v) {
    return key(name).value(v);
  }

  /// Returns the whole document. Preconditions: it is complete, and no part of it was taken.
  std::string const& text() const {
    expects(level_.empty() && !text_.empty(), "json::writer: the document must be complete");
    return text_;
  }

  /// Returns the number of characters written since `take`.
  std::size_t size() const { return text_.size(); }
  /// Returns what was written since the last call and forgets it, so that a long document need not be in
  /// memory.
  std::string take() { return std::exchange(text_, {}); }

 private:
  json::writer& open(char opening, char closing) {
    begin_value();
    text_ += opening;
    level_.push_back(closing);
    empty_ = true;
    return *this;
  }
  json::writer& close(char closing) {
    expects(!level_.empty() && level_.back() == closing && !keyed_,
            "json::writer: the innermost open object or array must be closed first");
    level_.pop_back();
    if (!empty_) new_line();
    text_ += closing;
    empty_ = false;
    return *this;
  }
  void begin_value() {
    if (level_.empty()) {
      expects(!begun_, "json::writer: a document has one value");
      begun_ = true;
    } else if (level_.back() == ']') {
      separate();
    } else {
      expects(keyed_, "json::writer: each value of an object needs a key");
    }
    keyed_ = false;
  }
  void separate() {
    if (!empty_) text_ += ',';
    empty_ = false;
    new_line();
  }
  void new_line() {
    if (layout_ == layout::indented) text_.append(1, '\n').append(2 * level_.size(), ' ');
  }
  json::writer& raw(std::string_view s) {
    begin_value();
    text_ += s;
    return *this;
  }
  template <class Number>
  json::writer& number(Number x) {
    char digits[64];
    return raw(std::string_view(digits, std::to_chars(digits, digits + sizeof digits, x).ptr));
  }
  void quote(std::string_view s) { ((text_ += '"') += detail::escape_json(s)) += '"'; }

  std::string text_;
  std::vector<char> level_;  // the closing bracket of each open level
  layout layout_;
  bool begun_ = false;  // the value of the document is being written, or has been
  bool empty_ = true;   // nothing is written yet at this level
  bool keyed_ = false;  // a key waits for its value
};
}  // namespace cleave::json
