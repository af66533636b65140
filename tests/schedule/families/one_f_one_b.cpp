// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/one_f_one_b.hpp"

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

static_assert(one_f_one_b(2, 2).ranks[0].size() == 4);

TEST_CASE("one_f_one_b: three ranks and four microbatches give the published lists") {
  CHECK(rows_of(one_f_one_b(3, 4)) == strings{"0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3",
                                              "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3",
                                              "2F0,2B0,2F1,2B1,2F2,2B2,2F3,2B3"});
}

TEST_CASE("one_f_one_b: makespan, bubble and memory match the closed forms") {
  for (std::uint32_t const p : {1u, 2u, 3u, 4u, 6u, 8u})
    for (std::uint32_t const m : {1u, (p + 1) / 2, p, p + 1, 2 * p, 4 * p}) {
      auto const s = one_f_one_b(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 3 * m + 3 * (p - 1));
      for (std::uint32_t r = 0; r < p; ++r) {
        CHECK(run.idle_within[r] == 3 * (p - 1 - r));
        CHECK(run.peak[r] == std::min(m, p - r));
      }
    }
}

TEST_CASE("one_f_one_b: with fewer microbatches than ranks, the first ranks run as in GPipe") {
  CHECK(rows_of(one_f_one_b(4, 2)) ==
        strings{"0F0,0F1,0B0,0B1", "1F0,1F1,1B0,1B1", "2F0,2F1,2B0,2B1", "3F0,3B0,3F1,3B1"});
}

TEST_CASE("eager_1f1b: is as fast as one_f_one_b without latency and faster with it") {
  for (std::uint32_t const p : {1u, 2u, 4u, 7u})
    for (std::uint32_t const m : {1u, p, 3 * p}) {
      auto const s = eager_1f1b(p, m);
      CHECK(order_defect(s) == "");
      CHECK(run_order(s).makespan == 3 * m + 3 * (p - 1));
      for (std::uint32_t r = 0; r < p; ++r) CHECK(run_order(s).peak[r] == std::min(m, 2 * (p - 1 - r) + 1));
    }
  CHECK(run_order(eager_1f1b(4, 16), {}, 1).makespan == 63);
  CHECK(run_order(one_f_one_b(4, 16), {}, 1).makespan == 85);
  CHECK(run_order(eager_1f1b(4, 8), {}, 0.5).makespan == 36);
  CHECK(run_order(one_f_one_b(4, 8), {}, 0.5).makespan == 41);
}
