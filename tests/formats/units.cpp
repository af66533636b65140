// SPDX-License-Identifier: MIT
#include "cleave/formats/units.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

using namespace cleave;

TEST_CASE("units: amounts have three digits and the largest prefix that fits") {
  CHECK(bytes_text(0) == "0\u00a0B");
  CHECK(bytes_text(999) == "999\u00a0B");
  CHECK(bytes_text(1536) == "1.5\u00a0KiB");
  CHECK(bytes_text(103'000'000) == "98.2\u00a0MiB");
  CHECK(amount_text(3.14159e9, "FLOP") == "3.14\u00a0GFLOP");
  CHECK(amount_text(999.4, "FLOP") == "999\u00a0FLOP");
  CHECK(amount_text(999.6, "FLOP") == "1.00\u00a0kFLOP");
  CHECK(amount_text(12.0e6, "FLOP") == "12.0\u00a0MFLOP");
  CHECK(amount_text(99.96e6, "FLOP") == "100\u00a0MFLOP");
  CHECK(amount_text(0.01234, "") == "0.0123");
  CHECK(amount_text(12, "") == "12");
  CHECK(amount_text(0.000523, "s") == "523\u00a0µs");
  CHECK(amount_text(0.00199951, "s") == "2.00\u00a0ms");
  CHECK(amount_text(1e-30, "s") == "0.00\u00a0ps");
  CHECK(amount_text(0, "s") == "0\u00a0s");
}

TEST_CASE("units: counts are grouped, shares have one digit, times are in milliseconds") {
  CHECK(count_text(7) == "7");
  CHECK(count_text(123) == "123");
  CHECK(count_text(1234) == "1\u202f234");
  CHECK(count_text(12345678) == "12\u202f345\u202f678");
  CHECK(percent_text(1) == "100.0\u00a0%");
  CHECK(percent_text(0.2534) == "25.3\u00a0%");
  CHECK(milliseconds_text(12.54e6) == "12.5\u00a0ms");
  CHECK(milliseconds_text(1'234'500'000.0) == "1234\u00a0ms");
}

TEST_CASE("units: NaN and infinity are printed as a dash") {
  CHECK(short_text(std::nan("")) == "–");
  CHECK(amount_text(std::numeric_limits<double>::infinity(), "") == "–");
  CHECK(decimal_text(-0.001, 1) == "0");
  CHECK(short_text(1e-300) == "0");
  CHECK(short_text(1.7e308).size() == 309);
}
