// SPDX-License-Identifier: MIT
#pragma once
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>

/// What the programs of `./dev gpu` have in common; they need neither doctest nor CMake.
namespace cleave::testing {

/// printf into a string.
[[gnu::format(printf, 1, 2)]] inline std::string text(char const* format, ...) {
  char line[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  return line;
}

/// The rows of one part of a run: to the standard output, and to the file that CLEAVE_GPU_ROWS names, as
/// part, what, expected, measured, verdict and number, with tabs between. A verdict is `passed` or `FAILED`
/// of a check, `met` or `missed` of an expectation, `seen` where there is none or the GPU is
/// a fake one (CLEAVE_GPU_FAKE), or `skipped`.
class gpu_report {
 public:
  explicit gpu_report(std::string part) : part_(std::move(part)) {}

  void check(bool passed, std::string const& what, std::string const& expected, std::string const& measured) {
    row(what, expected, measured, passed ? "passed" : "FAILED", 0);
    failed_ = failed_ || !passed;
  }
  void measure(std::string const& what, std::string const& expected, std::string const& measured,
               double number, bool met) {
    row(what, expected, measured, is_fake() ? "seen" : met ? "met" : "missed", number);
  }
  void tell(std::string const& what, std::string const& measured, double number = 0) {
    row(what, "", measured, "seen", number);
  }
  void skip(std::string const& what, std::string const& why) { row(what, "", why, "skipped", 0); }

  static bool is_fake() { return std::getenv("CLEAVE_GPU_FAKE") != nullptr; }
  /// Of the program: 1 where a check has failed.
  int status() const { return failed_ ? 1 : 0; }

 private:
  void row(std::string const& what, std::string const& expected, std::string const& measured,
           char const* verdict, double number) const {
    std::printf("%-8s %s: %s%s%s\n", verdict, what.c_str(), measured.c_str(),
                expected.empty() ? "" : "; expected ", expected.c_str());
    std::fflush(stdout);
    char const* const file = std::getenv("CLEAVE_GPU_ROWS");
    if (!file) return;
    auto const line = part_ + "\t" + what + "\t" + expected + "\t" + measured + "\t" + verdict + "\t";
    std::ofstream(file, std::ios::app) << line + text("%.6g\n", number);  // at once, if others write too
  }

  std::string part_;
  bool failed_ = false;
};

}  // namespace cleave::testing
