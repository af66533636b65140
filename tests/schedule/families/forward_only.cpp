// SPDX-License-Identifier: MIT
#include "cleave/schedule/families/forward_only.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support/run_order.hpp"

using namespace cleave;
using testing::order_defect;
using testing::run_order;

static_assert(forward_only(2, 1, 3).ranks[1].size() == 3);

TEST_CASE("forward_only: runs every forward pass once, with a bubble of p - 1 for full rounds") {
  for (std::uint32_t const p : {1u, 2u, 3u, 5u})
    for (std::uint32_t const v : {1u, 2u, 3u})
      for (std::uint32_t const m : {1u, p, p + 1, 4 * p}) {
        auto const s = forward_only(p, v, m);
        CHECK(order_defect(s, testing::passes::forward_alone) == "");
        if (m % p == 0) CHECK(run_order(s).makespan == m * v + p - 1);
      }
}
