// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <clocale>
#include <concepts>
#include <cstdlib>
#include <limits>
#include <string>
#include <system_error>

#include "cleave/core/language.hpp"

/// Reads numbers as `std::from_chars` does, also with standard libraries that read only integers with it:
/// that of LLVM before version 20.
namespace cleave::inline v0_2::detail {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Returns the end of `word` in [at, end), whatever its case, or `at` if it is not there.
inline char const* end_of_word(char const* at, char const* end, char const* word) {
  auto const* c = at;
  for (; *word != '\0'; ++word, ++c)
    if (c == end || (*c | 0x20) != *word) return at;
  return c;
}

/// Returns the end of the digits, the point, more digits and the exponent at `at`, or `at` if there is no
/// digit. Sets `is_zero` to whether all digits before the exponent are 0.
inline char const* end_of_decimal(char const* at, char const* end, bool& is_zero) {
  auto const* c = at;
  bool any = false;
  auto const skip_digits = [&] {
    for (; c != end && is_digit(*c); ++c) {
      any = true;
      is_zero = is_zero && *c == '0';
    }
  };
  is_zero = true;
  skip_digits();
  if (c != end && *c == '.') {
    ++c;
    skip_digits();
  }
  if (!any) return at;
  if (c == end || (*c | 0x20) != 'e') return c;
  auto const* e = c + 1;
  if (e != end && (*e == '+' || *e == '-')) ++e;
  if (e == end || !is_digit(*e)) return c;
  while (e != end && is_digit(*e)) ++e;
  return e;
}

/// `std::from_chars` for a floating-point number, by `std::strtod`, whose decimal point is the locale's.
template <std::floating_point Real>
std::from_chars_result read_real_by_strtod(char const* first, char const* last, Real& x) {
  bool const negative = first != last && *first == '-';
  auto const* const begin = first + (negative ? 1 : 0);
  auto const set = [&](Real magnitude, char const* end) {
    x = negative ? -magnitude : magnitude;
    return std::from_chars_result{end, std::errc()};
  };
  if (auto const* const end = end_of_word(begin, last, "inf"); end != begin) {
    auto const* const rest = end_of_word(end, last, "inity");
    return set(std::numeric_limits<Real>::infinity(), rest);
  }
  if (auto const* end = end_of_word(begin, last, "nan"); end != begin) {
    if (end != last && *end == '(') {  // nan(WORD)
      auto const* c = end + 1;
      while (c != last && (is_digit(*c) || *c == '_' || ((*c | 0x20) >= 'a' && (*c | 0x20) <= 'z'))) ++c;
      if (c != last && *c == ')') end = c + 1;
    }
    return set(std::numeric_limits<Real>::quiet_NaN(), end);
  }
  bool is_zero = false;
  auto const* const end = end_of_decimal(begin, last, is_zero);
  if (end == begin) return {first, std::errc::invalid_argument};
  std::string text(begin, end);
  if (auto const point = text.find('.'); point != std::string::npos)
    text.replace(point, 1, std::localeconv()->decimal_point);
  Real read;
  if constexpr (std::same_as<Real, float>)
    read = std::strtof(text.c_str(), nullptr);
  else
    read = std::strtod(text.c_str(), nullptr);
  bool const too_large = read > (std::numeric_limits<Real>::max)();
  if (too_large || (read == 0 && !is_zero)) return {end, std::errc::result_out_of_range};
  return set(read, end);
}

/// `std::from_chars` for a floating-point number.
template <std::floating_point Real>
std::from_chars_result read_real(char const* first, char const* last, Real& x) {
  if constexpr (requires { std::from_chars(first, last, x); })
    return std::from_chars(first, last, x);
  else
    return read_real_by_strtod(first, last, x);
}

}  // namespace cleave::detail
