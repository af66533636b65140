// SPDX-License-Identifier: MIT
#pragma once
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <string>

#include "cleave/formats/graph_files/text_cursor.hpp"
#include "cleave/graph/adjacency.hpp"

namespace cleave {

/// A weight with a fraction where whole numbers are asked for; who catches it can read the file once more,
/// with weights of type double.
class fractional_weight_error : public graph_file_error {
 public:
  using graph_file_error::graph_file_error;
};

}  // namespace cleave

namespace cleave::detail {

/// Refuses a word that is a number and not a whole one. \throws fractional_weight_error
inline void demand_no_fraction(text_cursor const& c, char const* what) {
  auto here = c;
  auto const text = here.word();
  auto const digits = text.find_first_not_of("0123456789");
  if (digits != text.npos && digits != 0 && text.find_first_not_of("0123456789.eE+-") == text.npos)
    throw fractional_weight_error(c.place_of(c.here()), std::string(what) + ", " + quoted(text) +
                                                            ", is no whole number; read the file with "
                                                            "weights of type double");
}

/// A weight: not negative; for an integer type whole.
template <weight_number Weight>
Weight read_weight(text_cursor& c, char const* what) {
  if (c.at_character('-')) {
    auto const* const at = c.here();
    c.word();
    c.fail_at(at, std::string(what) + " is negative; weights are from 0");
  }
  if constexpr (std::floating_point<Weight>) {
    return static_cast<Weight>(c.real(what));
  } else {
    if (!c.at_digits()) demand_no_fraction(c, what);
    return static_cast<Weight>(
        c.whole(what, 0, static_cast<std::uint64_t>((std::numeric_limits<Weight>::max)())));
  }
}

/// Puts a number at the end of `text`, in the shortest form that reads back as itself.
template <class Number>
void append_number(std::string& text, Number x) {
  char digits[64];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, x).ptr);
}

}  // namespace cleave::detail
