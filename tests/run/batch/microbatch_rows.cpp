// SPDX-License-Identifier: MIT
#include "cleave/run/batch/split_batch.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {

/// The sizes after dealing rows out one by one, like cards.
std::vector<std::int64_t> dealt(std::int64_t rows, std::int64_t asked) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(std::min(rows, asked)), 0);
  for (std::int64_t i = 0; i < rows; ++i) ++sizes[static_cast<std::size_t>(i) % sizes.size()];
  return sizes;
}

}  // namespace

TEST_CASE("microbatch_sizes: equal those of dealing rows out one by one") {
  for (std::int64_t rows = 0; rows < 40; ++rows)
    for (std::int64_t k = 1; k < 45; ++k) CHECK(microbatch_sizes(rows, k) == dealt(rows, k));
}

TEST_CASE("microbatch_rows: ranges of successive microbatches have no gaps") {
  for (std::int64_t rows = 0; rows < 30; ++rows)
    for (std::int64_t k = 1; k < 35; ++k) {
      std::int64_t at = 0;
      for (std::int64_t i = 0; i < k; ++i) {
        auto const [first, last] = microbatch_rows(rows, k, i);
        CHECK(first == at);
        CHECK(last >= first);
        at = last;
      }
      CHECK(at == rows);
    }
}

TEST_CASE("microbatch_rows: the largest batch does not overflow") {
  auto const most = std::numeric_limits<std::int64_t>::max();
  CHECK(microbatch_rows(most, 1, 0) == row_range{0, most});
  CHECK(microbatch_rows(most, most_microbatches, most_microbatches - 1).last == most);
  CHECK(microbatch_sizes(most, 3) == std::vector<std::int64_t>{most / 3 + 1, most / 3, most / 3});
}

TEST_CASE("microbatch_sizes: an invalid count is an error that names it") {
  CHECK_THROWS_WITH_AS(microbatch_sizes(4, 0), "microbatch_sizes: 0 microbatches; ask for 1 to 4294967294",
                       error);
  CHECK_THROWS_WITH_AS(microbatch_sizes(4, -3), "microbatch_sizes: -3 microbatches; ask for 1 to 4294967294",
                       error);
  CHECK_THROWS_WITH_AS(microbatch_sizes(-1, 2),
                       "microbatch_sizes: -1 rows; the number of rows must not be negative", error);
}
