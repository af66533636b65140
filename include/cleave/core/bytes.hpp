// SPDX-License-Identifier: MIT
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "cleave/core/expects.hpp"

namespace cleave::inline v0_2 {

/// Literals for sizes in bytes, such as `16_GiB`. A size above 2^64 - 1 does not compile.
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

/// Returns a size as text: `0 B`, `1.5 KiB`, `16 GiB`. The unit is the largest binary unit in which the
/// number is at least 1, and the number is rounded to tenths. An exact multiple of the unit has no decimal
/// digit. `parse_bytes` reads the text back, up to the rounding.
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

/// Parses a size in bytes that a person wrote. Returns nothing if the text is malformed or the size is above
/// 2^64 - 1.
///
/// The text is a number, optionally one space, then a unit. The number has digits, optionally a point, and
/// then at most six digits. Units are `B`, `kB`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`,
/// `GiB`, `TiB`, `PiB`, `EiB` (powers of 1024), or nothing (bytes). A fraction needs a unit larger than a
/// byte and is rounded down to whole bytes.
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
    // The quotient and the remainder of u / scale are multiplied separately: u * fraction may overflow.
    std::uint64_t const part = u.bytes / scale * fraction + u.bytes % scale * fraction / scale;
    if (whole * u.bytes > most - part) return std::nullopt;
    return whole * u.bytes + part;
  }
  return std::nullopt;
}
}  // namespace cleave
