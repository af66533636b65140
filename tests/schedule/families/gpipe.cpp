// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/gpipe.hpp"

#include <doctest/doctest.h>

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

static_assert(gpipe(3, 2).ranks[2].size() == 2 + 2 + 2);

TEST_CASE("gpipe: three ranks and two microbatches give the published lists") {
  CHECK(rows_of(gpipe(3, 2)) == strings{"0F0,0F1,,,,,,,0B0,0B1", ",1F0,1F1,,,,1B0,1B1", ",,2F0,2F1,2B0,2B1"});
}

TEST_CASE("gpipe: makespan, bubble and memory match the closed forms") {
  for (std::uint32_t const p : {1u, 2u, 3u, 4u, 6u, 8u})
    for (std::uint32_t const m : {1u, 3u, p, 2 * p, 4 * p}) {
      auto const s = gpipe(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 3 * m + 3 * (p - 1));
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(run.idle_within[r] == 3 * (p - 1 - r));
        CHECK(run.peak[r] == m);
      }
    }
}

TEST_CASE("gpipe: rejects zero and huge counts before it allocates") {
  CHECK_THROWS_AS(gpipe(0, 1), schedule_count_error);
  CHECK_THROWS_AS(gpipe(1, 0), schedule_count_error);
  CHECK_THROWS_AS(gpipe(0xffffffff, 0xffffffff), schedule_count_error);
  CHECK_THROWS_AS(gpipe(1u << 20, 1), schedule_count_error);
}
