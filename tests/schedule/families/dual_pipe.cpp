// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/dual_pipe.hpp"

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

static_assert(dual_pipe(2, 4).microbatches == 2);

TEST_CASE("dual_pipe: runs every pass once, with the published makespan and memory") {
  for (std::uint32_t const p : {2u, 4u, 6u, 8u})
    for (std::uint32_t const m : {2 * p, 2 * p + 2, 4 * p}) {
      auto const s = dual_pipe(p, m);
      CHECK(order_defect(s) == "");
      auto const run = run_order(s);
      CHECK(run.makespan == 3 * m + p - 2);
      for (auto const peak : run.peak) CHECK(peak == p + 1);
    }
}

TEST_CASE("dual_pipe: the lists of opposite ranks mirror each other") {
  auto const s = dual_pipe(6, 20);
  for (std::uint32_t r = 0; r < 6; ++r) {
    auto row = s.ranks[r];
    for (auto& a : row)
      if (a.stage != no_stage) a.stage = stage_id{(index(a.stage) + 6) % 12};
    CHECK(row == s.ranks[5 - r]);
  }
}

TEST_CASE("dual_pipe: rejects odd counts and too few microbatches") {
  using enum shape_fault::kind;
  CHECK(find_dual_pipe_fault(3, 12) == shape_fault{odd_ranks, 3, 0});
  CHECK(find_dual_pipe_fault(4, 13) == shape_fault{odd_microbatches, 13, 0});
  CHECK(find_dual_pipe_fault(4, 6) == shape_fault{too_few_microbatches, 6, 8});
  CHECK(!find_dual_pipe_fault(4, 8));
  CHECK_THROWS_AS(dual_pipe(3, 12), shape_error);
}
