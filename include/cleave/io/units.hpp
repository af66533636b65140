// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cleave {

/// Numbers as people read them, the same in every locale.

/// `x` with `decimals` digits after the point, without trailing zeros: `12.5`; `–` where it is no finite
/// number.
inline std::string decimal_text(double x, int decimals) {
  if (!std::isfinite(x)) return "–";
  char digits[400];
  auto const [end, fault] =
      std::to_chars(digits, digits + sizeof digits, x, std::chars_format::fixed, decimals);
  std::string out(digits, end);
  if (out.find('.') != std::string::npos) {
    out.erase(out.find_last_not_of('0') + 1);
    if (out.back() == '.') out.pop_back();
  }
  return out == "-0" ? "0" : out;
}

/// `x` with three significant digits where it is below 1000, none dropped before the point: `0.0123`, `7.5`,
/// `98.2`, `512`.
inline std::string short_text(double x) {
  if (!std::isfinite(x)) return "–";
  if (x == 0) return "0";
  double const size = std::floor(std::log10(std::fabs(x)));
  return decimal_text(x, size >= 2 ? 0 : size < -12 ? 15 : 2 - static_cast<int>(size));
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

/// `x` with the largest of the given prefixes that keeps it at least 1; each is `step` times the one before.
template <std::size_t Prefixes>
std::string scaled_text(double x, double step, std::string_view const (&prefix)[Prefixes],
                        std::string_view unit) {
  if (!std::isfinite(x)) return short_text(x);
  std::size_t i = 0;
  // 999.5 would be written 1000: three digits belong to the next prefix then.
  while (i + 1 < Prefixes && std::fabs(x) >= (step > 1000 ? step : 999.5)) {
    x /= step;
    ++i;
  }
  std::string out = short_text(x);
  std::string const tail = std::string(prefix[i]) + std::string(unit);
  return tail.empty() ? out : out + "\u00a0" + tail;
}

/// `98.2 MiB`, with a no-break space.
inline std::string bytes_text(std::uint64_t n) {
  static constexpr std::string_view prefix[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};
  return scaled_text(static_cast<double>(n), 1024, prefix, "B");
}

/// `3.14 GFLOP`: an amount of anything, with a no-break space.
inline std::string amount_text(double x, std::string_view unit) {
  static constexpr std::string_view prefix[] = {"", "k", "M", "G", "T", "P", "E"};
  return scaled_text(x, 1000, prefix, unit);
}

/// `25.3 %`, of a share between 0 and 1.
inline std::string percent_text(double share) { return decimal_text(100 * share, 1) + "\u00a0%"; }

/// `12.5 ms`, of nanoseconds.
inline std::string milliseconds_text(double ns) { return short_text(ns / 1e6) + "\u00a0ms"; }

}  // namespace cleave
