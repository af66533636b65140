// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/interleaved_1f1b.hpp"

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

static_assert(looped_bfs(2, 2, 2).ranks[1].size() == 9);

TEST_CASE("looped_bfs: two ranks with two stages each give the published lists") {
  CHECK(rows_of(looped_bfs(2, 2, 2)) ==
        strings{"0F0,0F1,2F0,2F1,,,2B1,2B0,0B1,0B0", ",1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0"});
}

TEST_CASE("looped_bfs: makespan and memory match the closed forms") {
  for (std::uint32_t const p : {1u, 2u, 3u, 4u, 6u})
    for (std::uint32_t const v : {1u, 2u, 3u, 4u})
      for (std::uint32_t const rounds : {1u, 2u, 4u}) {
        auto const m = p * rounds;
        auto const s = looped_bfs(p, v, m);
        CHECK(order_defect(s) == "");
        CHECK(run_order(s).makespan == 3 * m * v + 3 * (p - 1));
        for (auto const peak : run_order(s).peak) CHECK(peak == v * m);
      }
}

TEST_CASE("looped_bfs: with latency, four ranks with two stages each take the published time") {
  CHECK(run_order(looped_bfs(4, 2, 8), {}, 0.2).makespan / 2 == doctest::Approx(29.1));
}
