// SPDX-License-Identifier: MIT
#pragma once
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cleave/core/error.hpp>
#include <cleave/core/printable.hpp>
#include <cleave/formats/files/durable_file.hpp>
#include <cleave/formats/units.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace tool {

/// Returns the text in bold if stdout is a terminal and NO_COLOR is not set (no-color.org), else unchanged.
inline std::string bold(std::string const& text) {
  char const* const forbidden = std::getenv("NO_COLOR");
  bool const plain = isatty(STDOUT_FILENO) == 0 || (forbidden != nullptr && *forbidden != '\0');
  return plain ? text : "\x1b[1m" + text + "\x1b[0m";
}

/// Thrown if what goes to stdout is lost.
using lost_output_error = cleave::tagged_error<struct lost_output_tag, int>;

/// Writes to stdout. \throws lost_output_error if not all of the text is written
inline void write_stdout(std::string const& text) {
  try {
    cleave::file_handle("stdout", dup(STDOUT_FILENO)).write(std::as_bytes(std::span(text)));
  } catch (cleave::file_error const& e) {
    auto const why = std::error_code(e.witness.code, std::generic_category()).message();
    throw lost_output_error("stdout cannot be written: " + why + "; the output is not complete",
                            e.witness.code);
  }
}

/// The target of `print`: stderr if stdout is for an output file named `-`, and nowhere if stdout is for a
/// JSON object.
enum class text_target : std::uint8_t { to_stdout, to_stderr, nowhere };
inline text_target texts_go = text_target::to_stdout;

/// Prints a text for the user. \throws lost_output_error if not all of the text is written
inline void print(std::string const& text) {
  if (texts_go == text_target::to_stdout) write_stdout(text);
  if (texts_go == text_target::to_stderr) std::fputs(text.c_str(), stderr);
}

/// How much the tool writes to stderr, apart from errors.
enum class talk : std::uint8_t {
  quiet,   ///< nothing
  normal,  ///< notes and, on a terminal, the progress
  verbose  ///< notes, and a line for each step with its time
};
inline talk talk_level = talk::normal;

/// Prints a note to stderr, unless `--quiet` was given.
inline void note(std::string const& text) {
  if (talk_level != talk::quiet) std::fprintf(stderr, "cleave: note: %s\n", text.c_str());
}

/// A progress line on stderr, which is overwritten and finally erased. Prints nothing if stderr is not a
/// terminal. With `--verbose`, each step is a line of its own, with the seconds since the first.
class progress {
 public:
  progress() : shown_(isatty(STDERR_FILENO) != 0 && talk_level == talk::normal) {}
  progress(progress const&) = delete;
  progress& operator=(progress const&) = delete;
  ~progress() { clear(); }

  void operator()(std::string const& doing) const {
    if (talk_level == talk::verbose)
      std::fprintf(stderr, "cleave: %8.3f s  %s\n", seconds(), cleave::printable(doing).c_str());
    show("\r\x1b[K" + cleave::printable(doing) + " …");
  }
  /// Shows also how many steps are done, how many a second, and the remaining time, as if the rest took as
  /// long as the share that is done.
  void operator()(std::string const& doing, std::size_t done, double share) const {
    auto const spent = seconds();
    if (done == 0 || share <= 0 || spent <= 0) return (*this)(doing);
    (*this)(doing + " (" + cleave::count_text(done) + " done, " +
            cleave::short_text(static_cast<double>(done) / spent) + "/s, " +
            cleave::short_text(spent * (1 - share) / share) + " s left)");
  }
  void clear() const { show("\r\x1b[K"); }

 private:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  void show(std::string const& text) const {
    if (!shown_) return;
    std::fputs(text.c_str(), stderr);
    std::fflush(stderr);
  }
  bool shown_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Returns a count with its noun: `1 node`, `7 nodes`; `1 microbatch`, `8 microbatches`.
inline std::string plural(std::size_t n, std::string const& what) {
  return cleave::count_text(n) + " " + what + (n == 1 ? "" : what.ends_with("ch") ? "es" : "s");
}

/// Lists the first `most` of `items`, formatted by `show`: `a, b, c and 4 more`.
template <class Items, class Show>
std::string first_of(Items const& items, std::size_t most, Show show) {
  std::string text;
  std::size_t shown = 0;
  for (auto const& item : items) {
    if (shown == most) break;
    text += (shown++ > 0 ? ", " : "") + show(item);
  }
  auto const rest = static_cast<std::size_t>(std::ranges::distance(items)) - shown;
  return text + (rest > 0 ? " and " + std::to_string(rest) + " more" : "");
}

/// Returns the number of columns of a text. All characters count as one column wide.
inline std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Returns rows of cells as an aligned table. Numbers are right-aligned and the first row is bold.
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
