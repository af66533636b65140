// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/expects.hpp"

namespace cleave {

/// `16_GiB` in options; a size above 2^64 - 1 does not compile.
inline namespace literals {

consteval std::uint64_t operator""_KiB(unsigned long long n) {
  expects(n >> 54 == 0, "a size below 2^64 bytes");
  return n << 10;
}
consteval std::uint64_t operator""_MiB(unsigned long long n) {
  expects(n >> 44 == 0, "a size below 2^64 bytes");
  return n << 20;
}
consteval std::uint64_t operator""_GiB(unsigned long long n) {
  expects(n >> 34 == 0, "a size below 2^64 bytes");
  return n << 30;
}

}  // namespace literals

/// `0 B`, `1.5 KiB`, `16 GiB`: the largest binary unit that keeps the number at least 1, rounded to tenths;
/// an exact multiple shows none. `parse_bytes` reads it back, to within the rounding.
inline std::string format_bytes(std::uint64_t bytes) {
  static constexpr char const* unit[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
  std::size_t u = 0;
  while (u < 6 && bytes >> (10 * u) >= 1024) ++u;
  std::uint64_t const one = std::uint64_t{1} << (10 * u);
  std::uint64_t whole = bytes / one, rest = bytes % one;
  if (rest == 0) return std::to_string(whole) + unit[u];
  std::uint64_t tenths = (rest * 10 + one / 2) / one;  // rest < 2^60, so ten times it fits
  if (tenths == 10) {
    tenths = 0;
    // 1023.97 KiB is written as the 1 MiB it rounds to.
    if (++whole == 1024 && u < 6) whole = 1, ++u;
  }
  return std::to_string(whole) + '.' + static_cast<char>('0' + tenths) + unit[u];
}

/// The size that a person wrote: digits, perhaps a point and up to six digits more, perhaps one space, then
/// `B`, `kB`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB`, `PiB`, `EiB` (powers of
/// 1024), or nothing (bytes). A fraction needs a unit and is rounded down to whole bytes. Nothing where the
/// text is not that or the size is above 2^64 - 1.
constexpr std::optional<std::uint64_t> parse_bytes(std::string_view text) {
  constexpr std::uint64_t most = (std::numeric_limits<std::uint64_t>::max)();
  struct unit {
    std::string_view name;
    std::uint64_t bytes;
  };
  constexpr unit units[] = {{"", 1},
                            {"B", 1},
                            {"kB", 1000},
                            {"KB", 1000},
                            {"MB", 1000'000},
                            {"GB", 1000'000'000},
                            {"TB", 1000'000'000'000},
                            {"KiB", 1_KiB},
                            {"MiB", 1_MiB},
                            {"GiB", 1_GiB},
                            {"TiB", 1024_GiB},
                            {"PiB", 1024 * 1024_GiB},
                            {"EiB", 1024 * (1024 * 1024_GiB)}};
  std::size_t at = 0;
  auto const digit = [&] { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };

  if (!digit()) return std::nullopt;
  std::uint64_t whole = 0;
  for (; digit(); ++at) {
    auto const d = static_cast<std::uint64_t>(text[at] - '0');
    if (whole > (most - d) / 10) return std::nullopt;
    whole = whole * 10 + d;
  }

  std::uint64_t fraction = 0, scale = 1;
  if (at < text.size() && text[at] == '.') {
    ++at;
    if (!digit()) return std::nullopt;
    for (; digit(); ++at) {
      if (scale == 1'000'000) return std::nullopt;
      fraction = fraction * 10 + static_cast<std::uint64_t>(text[at] - '0');
      scale *= 10;
    }
  }

  if (at + 1 < text.size() && text[at] == ' ') ++at;
  for (auto const& u : units) {
    if (text.substr(at) != u.name) continue;
    if (whole > most / u.bytes || (scale > 1 && u.bytes == 1)) return std::nullopt;
    // u / scale and the remainder apart, since the product of both may not fit.
    std::uint64_t const part = u.bytes / scale * fraction + u.bytes % scale * fraction / scale;
    if (whole * u.bytes > most - part) return std::nullopt;
    return whole * u.bytes + part;
  }
  return std::nullopt;
}
}  // namespace cleave
