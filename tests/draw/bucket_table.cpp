// SPDX-License-Identifier: MIT
#include "cleave/draw/bucket_table.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("bucket_table: prints one row for each parameter and the numbers once for each bucket") {
  bucket_report const r{{{0, 100, {"net.3_p0"}}, {2, 12345678901, {"a", "überlang_weight"}}}, {{1, 3, 120}}};
  CHECK(bucket_table(r) ==
        "┌─────────┬─────────────┬─────────────────┐\n"
        "│   Index │    Size (b) │ Param Names     │\n"
        "├─────────┼─────────────┼─────────────────┤\n"
        "│       0 │         100 │ net.3_p0        │\n"
        "├─────────┼─────────────┼─────────────────┤\n"
        "│       2 │ 12345678901 │ a               │\n"
        "├─────────┼─────────────┼─────────────────┤\n"
        "│         │             │ überlang_weight │\n"
        "└─────────┴─────────────┴─────────────────┘");
  CHECK(extension_table(r).find("│       1 │           3 │                    120 │") != std::string::npos);
}

TEST_CASE("bucket_table: is empty for an empty report") {
  CHECK(bucket_table({}).empty());
  CHECK(extension_table({}).empty());
}

TEST_CASE("bucket_table: escapes control characters in names") {
  bucket_report const r{{{0, 1, {"a\nb\x1b[31m"}}}, {}};
  auto const text = bucket_table(r);
  CHECK(text.find("a\\x0ab\\x1b[31m") != std::string::npos);
}
