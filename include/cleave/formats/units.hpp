// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "cleave/core/bytes.hpp"
#include "cleave/core/real.hpp"

namespace cleave {

/// Numbers as people read them, the same in every locale.

/// `x` with `decimals` digits after the point: `12.50`; `–` where it is no finite number.
inline std::string fixed_text(double x, int decimals) {
  if (!is_finite(x)) return "–";
  char digits[400];
  return {digits, std::to_chars(digits, digits + sizeof digits, x, std::chars_format::fixed, decimals).ptr};
}

/// The same without trailing zeros: `12.5`.
inline std::string decimal_text(double x, int decimals) {
  auto out = fixed_text(x, decimals);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

/// `x` with three significant digits where it is below 1000, none dropped before the point: `0.0123`, `7.5`,
/// `98.2`, `512`.
inline std::string short_text(double x) {
  if (!is_finite(x)) return "–";
  if (x == 0) return "0";
  int const size = detail::decimal_exponent(x);
  return decimal_text(x, size >= 2 ? 0 : size < -12 ? 15 : 2 - size);
}

/// `1 234 567`, grouped by narrow no-break spaces.
inline std::string count_text(std::uint64_t n) {
  std::string const digits = std::to_string(n);
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += "\u202f";
    out += digits[i];
  }
  return out;
}

/// `98.2 MiB`, with a no-break space.
inline std::string bytes_text(std::uint64_t n) {
  auto out = format_bytes(n);
  return out.replace(out.find(' '), 1, "\u00a0");
}

/// `3.14 GFLOP`, `523 µs`: an amount of anything with a decimal prefix, three digits and a no-break space.
/// Without a unit there are no prefixes for small amounts.
inline std::string amount_text(double x, std::string_view unit) {
  static constexpr std::string_view prefix[] = {"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"};
  static constexpr std::size_t one = 4;
  std::size_t i = one;
  // 999.5 would be written 1000: that is 1 of the next prefix.
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

/// `25.3 %`, of a share between 0 and 1.
inline std::string percent_text(double share) { return fixed_text(100 * share, 1) + "\u00a0%"; }

/// `12.5 ms`, of nanoseconds.
inline std::string milliseconds_text(double ns) { return short_text(ns / 1e6) + "\u00a0ms"; }
}  // namespace cleave
