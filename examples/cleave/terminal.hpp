// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <algorithm>
#include <cleave/core/printable.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

/// Bold where stdout is a terminal that may be coloured (no-color.org), else as it is.
inline std::string bold(std::string const& text) {
  char const* const forbidden = std::getenv("NO_COLOR");
  bool const plain = isatty(STDOUT_FILENO) == 0 || (forbidden != nullptr && *forbidden != '\0');
  return plain ? text : "\x1b[1m" + text + "\x1b[0m";
}

inline void print(std::string const& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

/// A line on stderr, for what is no part of the answer.
inline void note(std::string const& text) { std::fprintf(stderr, "cleave: note: %s\n", text.c_str()); }

/// One line on stderr that says what is being done, rewritten each time and gone at the end; nothing in a
/// log.
class progress {
 public:
  progress() : shown_(isatty(STDERR_FILENO) != 0) {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { clear(); }

  void operator()(std::string const& doing) const { show("\r\x1b[K" + cleave::printable(doing) + " …"); }
  void clear() const { show("\r\x1b[K"); }

 private:
  void show(std::string const& text) const {
    if (!shown_) return;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  bool shown_;
};

/// `1 node`, `7 nodes`; `1 microbatch`, `8 microbatches`.
inline std::string plural(std::size_t n, std::string const& what) {
  return cleave::count_text(n) + " " + what + (n == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

/// How many columns a text takes: its characters, all of width 1.
inline std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Rows of cells below each other, numbers to the right: `text` as lines, the first row bold.
inline std::string table_text(std::vector<std::vector<std::string>> const& rows) {
  std::vector<std::size_t> width;
  for (auto const& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], columns(row[i]));
  }
  std::string text;
  for (auto const& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += std::string(width[i] - columns(row[i]) + (i == 0 ? 2 : 3), ' ') + row[i];
    text += (&row == &rows.front() ? bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace tool
