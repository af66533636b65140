// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/interleaved_1f1b.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::order_defect;
using testing::rows_of;
using testing::run_order;
using strings = std::vector<std::string>;

static_assert(interleaved_1f1b(2, 2, 4).ranks[0].size() == 22);

TEST_CASE("interleaved_1f1b: two ranks with two stages each give the published lists") {
  CHECK(rows_of(interleaved_1f1b(2, 2, 4)) ==
        strings{"0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3",
                ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3"});
}

TEST_CASE("interleaved_1f1b: makespan, bubble and memory match the closed forms") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u})
    for (std::uint32_t const v : {1u, 2u, 3u, 4u})
      for (std::uint32_t const rounds : {1u, 2u, 3u, 4u}) {
        auto const m = p * rounds;
        auto const s = interleaved_1f1b(p, v, m);
        CHECK(order_defect(s) == "");
        auto const run = run_order(s);
        CHECK(run.makespan == 3 * m * v + 3 * (p - 1));
        for (std::uint32_t r = 0; r < p; ++r) {
          CHECK(run.idle_within[r] == 3 * (p - 1 - r));
          CHECK(run.peak[r] == std::min(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1));
        }
      }
}

TEST_CASE("interleaved_1f1b: microbatches that do not fill rounds take the published time or are rejected") {
  auto const time = [](std::uint32_t m) { return run_order(interleaved_1f1b(4, 2, m)).makespan / 2; };
  CHECK(time(10) == 34.5);
  CHECK(time(3) == 15);
  CHECK(time(15) == 49.5);
  CHECK_THROWS_WITH_AS(interleaved_1f1b(4, 2, 11),
                       "interleaved 1F1B: the number of microbatches must be a multiple of 2, not 11; a "
                       "multiple of the number of ranks always fits",
                       shape_error);
}
