// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/interleaved_zero_bubble.hpp"

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

static_assert(interleaved_zero_bubble(2, 2, 4).ranks[0].size() == 25);

TEST_CASE("interleaved_zero_bubble: two ranks with two stages each give the published lists") {
  CHECK(
      rows_of(interleaved_zero_bubble(2, 2, 4)) ==
      strings{
          "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,0W3",
          ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,"
          "1W3"});
}

TEST_CASE("interleaved_zero_bubble: makespan, bubble and memory match the closed forms") {
  for (std::uint32_t const p : {2u, 3u, 4u, 6u})
    for (std::uint32_t const v : {1u, 2u, 3u, 4u})
      for (std::uint32_t const rounds : {1u, 2u, 3u, 4u}) {
        auto const m = p * rounds;
        auto const s = interleaved_zero_bubble(p, v, m);
        CHECK(order_defect(s) == "");
        auto const run = run_order(s);
        CHECK(run.makespan == 3 * m * v + (p - 1));
        for (std::uint32_t r = 0; r < p; ++r) {
          CHECK(run.idle_within[r] == p - 1 - r);
          CHECK(run.peak[r] == std::min(v * m, (v - 1) * p + p));
        }
      }
}

TEST_CASE(
    "interleaved_zero_bubble: microbatches that do not fill rounds take the published time or are rejected") {
  auto const time = [](std::uint32_t m) { return run_order(interleaved_zero_bubble(4, 2, m)).makespan / 2; };
  CHECK(time(10) == 31.5);
  CHECK(time(3) == 11.5);
  CHECK(time(15) == 46.5);
  CHECK_THROWS_AS(interleaved_zero_bubble(4, 2, 11), shape_error);
}

TEST_CASE("zb_h1: has the memory of 1F1B and, with enough microbatches, a third of its bubble") {
  for (std::uint32_t const p : {1u, 2u, 3u, 4u, 8u})
    for (std::uint32_t const m : {1u, 2u, 5u, p, 2 * p + 1, 4 * p}) {
      auto const s = zb_h1(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      if (m >= p) CHECK(run.makespan == 3 * m + p - 1);
      for (auto const peak : run.peak) CHECK(peak == std::min(m, p));
    }
}
