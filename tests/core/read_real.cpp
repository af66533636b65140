// SPDX-License-Identifier: MIT
#include "cleave/core/read_real.hpp"

#include <doctest/doctest.h>

#include <charconv>
#include <cmath>
#include <cstddef>
#include <string>
#include <system_error>
#include <vector>

#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

/// What was read of a text: how many characters, the reason why not, the bits.
template <class Real>
struct reading {
  std::ptrdiff_t characters;
  std::errc fault;
  Real x;
  bool operator==(reading const& other) const {
    bool const both_nan = x != x && other.x != other.x;
    return characters == other.characters && fault == other.fault && (both_nan || x == other.x) &&
           std::signbit(x) == std::signbit(other.x);
  }
};

template <class Real>
reading<Real> read_by(auto read, std::string const& text) {
  Real x = 7;
  auto const [end, fault] = read(text.data(), text.data() + text.size(), x);
  return {end - text.data(), fault, x};
}

constexpr auto standard = [](char const* a, char const* b, auto& x) { return std::from_chars(a, b, x); };
constexpr auto by_strtod = [](char const* a, char const* b, auto& x) {
  return detail::read_real_by_strtod(a, b, x);
};

/// Texts that are numbers, nearly numbers, or neither.
std::vector<std::string> const texts = {"",
                                        "-",
                                        "+1",
                                        ".",
                                        "0",
                                        "-0",
                                        "-0.0e9",
                                        "1",
                                        "12.5",
                                        "1.",
                                        ".5",
                                        "-.5",
                                        "-.",
                                        "1e3",
                                        "1E+3",
                                        "1e-3",
                                        "1e",
                                        "1e+",
                                        "1e+x",
                                        "1.5.2",
                                        "1,5",
                                        " 1",
                                        "0x10",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "1e-320",
                                        "4.9e-324",
                                        "2e-324",
                                        "1e39",
                                        "1e-46",
                                        "1e-40",
                                        "inf",
                                        "-INF",
                                        "infinit",
                                        "Infinity!",
                                        "in",
                                        "nan",
                                        "-NaN",
                                        "nan()",
                                        "nan(a_1)x",
                                        "nan(-)",
                                        "na",
                                        "1e99999",
                                        "1e-99999",
                                        "0e99999",
                                        "0.1",
                                        "1e22",
                                        "1e23",
                                        "9007199254740993",
                                        "179769313486231580793e289",
                                        "e5",
                                        "--1"};

}  // namespace

TEST_CASE("read_real_by_strtod: reads what std::from_chars reads") {
  for (auto const& text : texts) {
    CAPTURE(text);
    CHECK(read_by<double>(by_strtod, text) == read_by<double>(standard, text));
    CHECK(read_by<float>(by_strtod, text) == read_by<float>(standard, text));
  }
}

TEST_CASE("read_real_by_strtod: reads what std::from_chars reads of random texts") {
  testing::rng r(1);
  std::string const characters = "00123456789.eE+-";
  for (std::size_t i = 0; i < testing::cases(20'000, 2'000'000); ++i) {
    std::string text;
    for (auto n = r.below(std::size_t{24}); n > 0; --n)
      text += r.one_in(3) ? characters[r.below(characters.size())] : characters[r.below(std::size_t{12})];
    CAPTURE(text);
    REQUIRE(read_by<double>(by_strtod, text) == read_by<double>(standard, text));
    REQUIRE(read_by<float>(by_strtod, text) == read_by<float>(standard, text));
  }
}

TEST_CASE("read_real: reads up to the first character that does not belong to a number") {
  CHECK(read_by<double>([](auto a, auto b, auto& x) { return detail::read_real(a, b, x); }, "2.5e1 x") ==
        reading<double>{5, std::errc(), 25});
}
