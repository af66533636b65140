// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

#include "cleave/core/error.hpp"
#include "cleave/core/printable.hpp"
#include "cleave/core/read_real.hpp"
#include "cleave/core/real.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave::inline v0_2::detail {

/// A place in a text: line and column from 1, in bytes.
struct text_place {
  std::size_t line = 1, column = 1;

  bool operator==(text_place const&) const = default;
};

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown if a file is not in its format, or contains no valid graph or parts; the witness is the place.
class graph_file_error : public witness_error<detail::text_place> {
 public:
  graph_file_error(detail::text_place at, std::string const& what)
      : witness_error(
            "line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " + what, at) {}
  /// Makes a copy of `e` whose message begins with the name of the file.
  graph_file_error(std::string const& file, graph_file_error const& e)
      : witness_error(printable(file, 200) + ": " + e.what(), e.witness) {}
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// A cursor over a text of lines and numbers. A mismatch throws graph_file_error with the place, whose line
/// and column are computed only then.
class text_cursor {
 public:
  /// Starts at the beginning of the text, which begins at line `line` of its file.
  explicit text_cursor(std::string_view text, std::size_t line = 1)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), line_(line) {}

  bool at_end() const { return at_ == end_; }
  /// Skips blanks; returns true at the end of the line.
  bool at_line_end() {
    skip_blanks();
    return at_ == end_ || *at_ == '\n';
  }
  /// Skips blanks; returns true if `c` follows.
  bool at_character(char c) {
    skip_blanks();
    return at_ != end_ && *at_ == c;
  }
  /// Skips blanks; returns true if a word of digits follows.
  bool at_digits() {
    skip_blanks();
    auto const* stop = at_;
    while (stop != end_ && static_cast<unsigned>(*stop - '0') <= 9) ++stop;
    return stop != at_ && (stop == end_ || is_blank(*stop) || *stop == '\n');
  }
  void skip_line() {
    at_ = std::find(at_, end_, '\n');
    if (at_ != end_) ++at_;
  }
  /// Moves to the next line; fails if this line has more. `what` is the expected last item, for the message.
  void end_line(char const* what) {
    if (!at_line_end()) fail("expected the end of the line after " + std::string(what) + ", got " + seen());
    skip_line();
  }
  /// Skips lines that begin with one of `marks`.
  void skip_comments(std::string_view marks) {
    while (at_ != end_ && marks.find(*at_) != marks.npos) skip_line();
  }
  /// Skips empty lines and lines that begin with one of `marks`.
  void skip_to_content(std::string_view marks) {
    for (; at_ != end_; skip_line())
      if (!at_line_end() && marks.find(*at_) == marks.npos) return;
  }

  /// Reads a word; empty at the end of the line.
  std::string_view word() {
    skip_blanks();
    auto const* const from = at_;
    while (at_ != end_ && !is_blank(*at_) && *at_ != '\n') ++at_;
    return {from, static_cast<std::size_t>(at_ - from)};
  }
  /// Reads a whole number from `least` to `most`, in digits.
  std::uint64_t whole(char const* what, std::uint64_t least, std::uint64_t most) {
    skip_blanks();
    auto const* const from = at_;
    std::uint64_t n = 0;
    bool fits = true;
    for (; at_ != end_; ++at_) {
      auto const digit = static_cast<unsigned>(*at_ - '0');
      if (digit > 9) break;
      if (n >= ~std::uint64_t{0} / 10) [[unlikely]]
        fits = false;  // rejects also the last few numbers below 2^64, which no file needs
      n = 10 * n + digit;
    }
    bool const ends = at_ == end_ || is_blank(*at_) || *at_ == '\n';
    if (at_ == from || !ends || !fits || n < least || n > most) [[unlikely]]
      refuse(from, what, least, most);
    return n;
  }
  /// Reads a finite number.
  double real(char const* what) {
    skip_blanks();
    auto const* const from = at_;
    if (at_ != end_ && *at_ == '+') ++at_;
    double x = 0;
    auto const [stop, fault] = detail::read_real(at_, end_, x);
    bool const ends = stop == end_ || is_blank(*stop) || *stop == '\n';
    if (fault != std::errc() || !ends || !is_finite(x)) {
      at_ = from;
      fail("expected " + std::string(what) + ", a number, got " + seen());
    }
    at_ = stop;
    return x;
  }

  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  char const* here() const { return at_; }
  /// Returns what comes next, for messages: a quoted word, or the end of the line or file.
  std::string seen() {
    if (at_line_end()) return at_end() ? "the end of the file" : "the end of the line";
    auto const* const from = at_;
    auto const text = word();
    at_ = from;
    return quoted(text);
  }
  [[noreturn]] void fail(std::string const& what) const { fail_at(at_, what); }
  [[noreturn]] void fail_at(char const* at, std::string const& what) const {
    throw graph_file_error(place_of(at), what);
  }
  text_place place_of(char const* at) const {
    auto const line = static_cast<std::size_t>(std::count(begin_, at, '\n'));
    auto const* start = at;
    while (start != begin_ && start[-1] != '\n') --start;
    return {line_ + line, static_cast<std::size_t>(at - start) + 1};
  }

 private:
  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  void skip_blanks() {
    while (at_ != end_ && is_blank(*at_)) ++at_;
  }
  [[noreturn]] void refuse(char const* from, char const* what, std::uint64_t least, std::uint64_t most) {
    at_ = from;
    std::string const range = most == ~std::uint64_t{0}
                                  ? " from " + std::to_string(least)
                                  : " from " + std::to_string(least) + " to " + std::to_string(most);
    fail("expected " + std::string(what) + ", a whole number" + range + ", got " + seen());
  }

  char const *begin_, *at_, *end_;
  std::size_t line_;
};

/// Checks the stated number of nodes before memory is allocated for them. Isolated nodes take no bytes in the
/// file. Hence the limit is sixteen nodes per byte plus a million.
template <std::integral Index>
void check_stated_nodes(text_cursor const& c, char const* at, std::uint64_t nodes, std::size_t bytes) {
  if (nodes / 16 > bytes + (std::size_t{1} << 16))
    c.fail_at(at, std::to_string(nodes) + " nodes in a file of " + std::to_string(bytes) +
                      " bytes; nodes are numbered without gaps");
  if (nodes >= static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()))
    c.fail_at(at, std::to_string(nodes) + " nodes are more than indices of " +
                      std::to_string(8 * sizeof(Index)) + " bits can number; read the file with 64 bits");
}

/// Checks the stated number of edges; the line of an edge takes at least `least` bytes.
template <std::integral Index>
void check_stated_edges(text_cursor const& c, char const* at, std::uint64_t edges, std::size_t least = 4) {
  if (edges > (c.left() + 1) / least)
    c.fail_at(at, std::to_string(edges) + " edges are stated, but there are only " +
                      std::to_string(c.left()) + " bytes below");
  if (edges > static_cast<std::uint64_t>((std::numeric_limits<Index>::max)()) / 2)
    c.fail_at(at, "the ends of " + std::to_string(edges) + " edges are more than indices of " +
                      std::to_string(8 * sizeof(Index)) + " bits can number; read the file with 64 bits");
}

/// Throws if a graph has node weights that the format cannot hold.
inline void require_no_node_weights(bool has_them, char const* format) {
  if (has_them) throw error(std::string(format) + " cannot hold node weights; write METIS' format (.graph)");
}

}  // namespace cleave::detail

namespace cleave::inline v0_2 {

/// Thrown for a fractional weight if whole numbers are required. The caller can read the file again with
/// weights of type double.
class fractional_weight_error : public graph_file_error {
 public:
  using graph_file_error::graph_file_error;
};

}  // namespace cleave

namespace cleave::inline v0_2::detail {

/// Checks that a word is not a fractional number. \throws fractional_weight_error
inline void require_no_fraction(text_cursor const& c, char const* what) {
  auto here = c;
  auto const text = here.word();
  auto const digits = text.find_first_not_of("0123456789");
  if (digits != text.npos && digits != 0 && text.find_first_not_of("0123456789.eE+-") == text.npos)
    throw fractional_weight_error(c.place_of(c.here()),
                                  std::string(what) + ", " + quoted(text) +
                                      ", is not a whole number; read the file with weights of type double");
}

/// Reads a weight, which must not be negative; for an integer type it must be whole.
template <weight_number Weight>
Weight read_weight(text_cursor& c, char const* what) {
  if (c.at_character('-')) {
    auto const* const at = c.here();
    c.word();
    c.fail_at(at, std::string(what) + " is negative; weights must be 0 or more");
  }
  if constexpr (std::floating_point<Weight>) {
    return static_cast<Weight>(c.real(what));
  } else {
    if (!c.at_digits()) require_no_fraction(c, what);
    return static_cast<Weight>(
        c.whole(what, 0, static_cast<std::uint64_t>((std::numeric_limits<Weight>::max)())));
  }
}

/// Appends a number to `text`, in the shortest form that reads back as the same number.
template <class Number>
void append_number(std::string& text, Number x) {
  char digits[64];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

}  // namespace cleave::detail
