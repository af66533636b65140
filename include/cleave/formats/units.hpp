// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/bytes.hpp"
#include "cleave/core/real.hpp"

namespace cleave::inline v0_2 {

/// Formatting of numbers for people. The results are the same in every locale.

/// Returns `x` with `decimals` digits after the point, as in `12.50`; `–` if `x` is not finite.
inline std::string fixed_text(double x, int decimals) {
  if (!is_finite(x)) return "–";
  char digits[400];
  return {digits, std::to_chars(digits, digits + sizeof digits, x, std::chars_format::fixed, decimals).ptr};
}

/// Returns `x` like `fixed_text` but without trailing zeros: `12.5`.
inline std::string decimal_text(double x, int decimals) {
  auto out = fixed_text(x, decimals);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

/// Returns `x` with three significant digits; digits before the point are never dropped: `0.0123`, `7.5`,
/// `98.2`, `512`.
inline std::string short_text(double x) {
  if (!is_finite(x)) return "–";
  if (x == 0) return "0";
  int const size = detail::decimal_exponent(x);
  return decimal_text(x, size >= 2 ? 0 : size < -12 ? 15 : 2 - size);
}

/// Returns a count with digits grouped by narrow no-break spaces: `1 234 567`.
inline std::string count_text(std::uint64_t n) {
  std::string const digits = std::to_string(n);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += "\u202f";
    out += digits[i];
  }
  return out;
}

/// Returns a size with a no-break space before the unit: `98.2 MiB`.
inline std::string bytes_text(std::uint64_t n) {
  auto out = format_bytes(n);
  return out.replace(out.find(' '), 1, "\u00a0");
}

/// Returns an amount with three digits, a no-break space and a decimal prefix: `3.14 GFLOP`, `523 µs`. If
/// `unit` is empty, small amounts get no prefix.
inline std::string amount_text(double x, std::string_view unit) {
  static constexpr std::string_view prefix[] = {"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"};
  static constexpr std::size_t one = 4;
  std::size_t i = one;
  // 999.5 would round to 1000, which is 1 of the next prefix.
  for (; i < 10 && is_finite(x) && magnitude(x) >= 999.5; ++i) x /= 1000;
  if (!unit.empty())
    for (; i > 0 && i <= one && magnitude(x) < 0.9995 && x != 0; --i) x *= 1000;
  auto out = i == one ? short_text(x)
                      : fixed_text(x, magnitude(x) < 9.995   ? 2
                                      : magnitude(x) < 99.95 ? 1
                                                             : 0);
  auto const tail = std::string(prefix[i]) + std::string(unit);
  return tail.empty() ? out : out + "\u00a0" + tail;
}

/// Returns a fraction as a percentage: `25.3 %`.
inline std::string percent_text(double share) { return fixed_text(100 * share, 1) + "\u00a0%"; }

/// Returns nanoseconds as milliseconds: `12.5 ms`.
inline std::string milliseconds_text(double ns) { return short_text(ns / 1e6) + "\u00a0ms"; }
}  // namespace cleave
