// SPDX-License-Identifier: MIT
#include "cleave/core/bytes.hpp"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "support/rng.hpp"

using namespace cleave;

namespace {
constexpr auto most = std::numeric_limits<std::uint64_t>::max();
}

static_assert(16_GiB == 17'179'869'184u);
static_assert(3_MiB == 3'145'728u);
static_assert(0_KiB == 0u);
static_assert(17'179'869'183_GiB == most - 1_GiB + 1);
static_assert(parse_bytes("2GiB") == 2_GiB);

TEST_CASE("format_bytes: shows a size in the largest fitting unit, as a whole number or with one decimal") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1 KiB");
  CHECK(format_bytes(1025) == "1.0 KiB");
  CHECK(format_bytes(1536) == "1.5 KiB");
  CHECK(format_bytes(1_MiB - 1) == "1.0 MiB");
  CHECK(format_bytes(1023_KiB + 900) == "1023.9 KiB");
  CHECK(format_bytes(16_GiB) == "16 GiB");
  CHECK(format_bytes(1024_GiB) == "1 TiB");
  CHECK(format_bytes(most) == "16.0 EiB");
}

TEST_CASE("parse_bytes: reads decimal and binary units, fractions and leading zeros") {
  CHECK(parse_bytes("0") == 0u);
  CHECK(parse_bytes("123") == 123u);
  CHECK(parse_bytes("123B") == 123u);
  CHECK(parse_bytes("5 kB") == 5000u);
  CHECK(parse_bytes("5KB") == 5000u);
  CHECK(parse_bytes("7MB") == 7'000'000u);
  CHECK(parse_bytes("8GB") == 8'000'000'000u);
  CHECK(parse_bytes("2TB") == 2'000'000'000'000u);
  CHECK(parse_bytes("3KiB") == 3_KiB);
  CHECK(parse_bytes("3 MiB") == 3_MiB);
  CHECK(parse_bytes("2GiB") == 2_GiB);
  CHECK(parse_bytes("4TiB") == 4096_GiB);
  CHECK(parse_bytes("1.5GiB") == 1536_MiB);
  CHECK(parse_bytes("0.000001GB") == 1000u);
  CHECK(parse_bytes("0.1KiB") == 102u);
  CHECK(parse_bytes("007") == 7u);
}

TEST_CASE("parse_bytes: rejects text that is not a size") {
  for (auto text : {"",       " ",    "GiB",  "-1",    "+1",    "1 ",  " 1",   "1  GiB",
                    "1GIB",   "1gib", "1Gi",  "1.GiB", ".5GiB", "1.5", "1.5B", "1.0000000GiB",
                    "1,5GiB", "1e3",  "0x10", "1GiB ", "1GiBs", "NaN", "inf",  "1.5.5GiB"}) {
    INFO(std::string(text));
    CHECK_FALSE(parse_bytes(text));
  }
  using namespace std::string_view_literals;
  CHECK_FALSE(parse_bytes("1\0GiB"sv));
}

TEST_CASE("parse_bytes: accepts 2^64 - 1 bytes and rejects anything larger") {
  CHECK(parse_bytes("18446744073709551615") == most);
  CHECK_FALSE(parse_bytes("18446744073709551616"));
  CHECK_FALSE(parse_bytes("99999999999999999999999999"));
  CHECK(parse_bytes("17179869183GiB") == most - 1_GiB + 1);
  CHECK(parse_bytes("17179869183.999999GiB"));
  CHECK_FALSE(parse_bytes("17179869184GiB"));
  CHECK_FALSE(parse_bytes("16EiB"));
  CHECK(parse_bytes("15.999999EiB"));
}

TEST_CASE("format_bytes: parse_bytes reads the text back to within 5 %, and exactly if it has no decimal") {
  testing::rng random(1);
  for (int i = 0; i < 10000; ++i) {
    std::uint64_t const bytes = random.next() >> random.below(64);
    auto const text = format_bytes(bytes);
    auto const back = parse_bytes(text);
    INFO(text);
    if (!back) {
      CHECK(text == "16.0 EiB");
      continue;
    }
    std::uint64_t const apart = *back > bytes ? *back - bytes : bytes - *back;
    CHECK(apart <= bytes / 20 + 1);
    if (text.find('.') == std::string::npos) CHECK(apart == 0);
  }
}
