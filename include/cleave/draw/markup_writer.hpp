// SPDX-License-Identifier: MIT
#pragma once
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "cleave/core/escape.hpp"
#include "cleave/core/expects.hpp"
#include "cleave/core/real.hpp"
#include "cleave/formats/units.hpp"

namespace cleave::inline v0_2::detail {

/// The name and value of an attribute. The value is escaped when it is written. Numbers are rounded to two
/// decimals; NaN and infinity are written as 0.
struct markup_attribute {
  std::string_view name;
  std::string value;

  template <class Text>
    requires std::convertible_to<Text, std::string_view>
  markup_attribute(std::string_view n, Text const& v) : name(n), value(std::string_view(v)) {}
  template <class Number>
    requires std::floating_point<Number> || std::integral<Number>
  markup_attribute(std::string_view n, Number v) : name(n), value(number(v)) {}

 private:
  template <class Number>
  static std::string number(Number v) {
    if constexpr (std::integral<Number>)
      return std::to_string(v);
    else
      return is_finite(v) ? decimal_text(v, 2) : "0";
  }
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Writes HTML with embedded SVG, in a form that XML parsers also accept. Text is escaped, so it cannot end
/// an element.
/// \pre every opened element is closed, in order; a violation aborts the program
class markup_writer {
 public:
  using attributes = std::initializer_list<detail::markup_attribute>;

  markup_writer& open(std::string_view tag, attributes list = {}) {
    begin(tag, list);
    text_ += '>';
    open_.emplace_back(tag);
    return *this;
  }
  markup_writer& close(std::string_view tag) {
    expects(!open_.empty() && open_.back() == tag, "the element that was opened last");
    open_.pop_back();
    ((text_ += "</") += tag) += ">\n";
    return *this;
  }
  /// Writes an element without content.
  markup_writer& empty(std::string_view tag, attributes list = {}) {
    begin(tag, list);
    text_ += "/>\n";
    return *this;
  }
  /// Writes an element that contains only text.
  markup_writer& element(std::string_view tag, attributes list, std::string_view content) {
    return open(tag, list).text(content).close(tag);
  }
  markup_writer& element(std::string_view tag, std::string_view content) { return element(tag, {}, content); }
  markup_writer& text(std::string_view content) {
    text_ += detail::escape_markup(content);
    return *this;
  }
  /// Writes markup without escaping; it must be well-formed by itself.
  markup_writer& markup(std::string_view whole) {
    text_ += whole;
    return *this;
  }

  /// Returns the document.
  /// \pre no element is open
  std::string const& str() const {
    expects(open_.empty(), "every element closed");
    return text_;
  }

 private:
  void begin(std::string_view tag, attributes list) {
    (text_ += '<') += tag;
    for (auto const& a : list) (((text_ += ' ') += a.name) += "=\"") += detail::escape_markup(a.value) + '"';
  }

  std::string text_;
  std::vector<std::string> open_;
};

/// Writes a line of text in a drawing, with the CSS class `kind`. Its `anchor` (start, middle or end) is at
/// (x, y).
inline void write_svg_text(markup_writer& to, std::string_view kind, double x, double y,
                           std::string_view anchor, std::string_view content) {
  to.element("text", {{"class", kind}, {"x", x}, {"y", y}, {"text-anchor", anchor}}, content);
}

}  // namespace cleave
