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
using testing::run_order;

static_assert(megatron_interleaved(2, 2, 4).ranks[0].size() == 16);

TEST_CASE("megatron_interleaved: every accepted shape runs without deadlock") {
  for (std::uint32_t p = 1; p <= 5; ++p)
    for (std::uint32_t v = 1; v <= 3; ++v)
      for (std::uint32_t g = 1; g <= 2 * p + 1; ++g)
        for (std::uint32_t m = 1; m <= 4 * p + 2; ++m) {
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(g);
          CAPTURE(m);
          if (find_group_fault(p, m, g))
            CHECK_THROWS_AS(megatron_interleaved(p, v, m, {.group = g}), shape_error);
          else
            CHECK(order_defect(megatron_interleaved(p, v, m, {.group = g})) == "");
        }
}

TEST_CASE("megatron_interleaved: fewer microbatches than ranks are one group") {
  CHECK(megatron_interleaved(4, 2, 3) == megatron_interleaved(4, 2, 3, {.group = 3}));
}

TEST_CASE(
    "megatron_interleaved: with a group as large as the ranks, equals interleaved_1f1b without idle steps") {
  auto ours = megatron_interleaved(4, 3, 8), torch = interleaved_1f1b(4, 3, 8);
  for (auto& row : torch.ranks)
    std::erase_if(row, [](action const& a) { return a.kind == action_kind::idle; });
  CHECK(ours == torch);
}

TEST_CASE("megatron_interleaved: larger groups and extra warm-up raise the peak memory") {
  CHECK(run_order(megatron_interleaved(4, 2, 16, {.group = 4})).peak[0] == 4 + 6 + 1);
  CHECK(run_order(megatron_interleaved(4, 2, 16, {.group = 8})).peak[0] == 8 + 6 + 1);
  CHECK(run_order(megatron_interleaved(4, 2, 16, {.extra_warm_up = 1})).peak[0] == 4 + 6 + 2);
}

TEST_CASE("find_group_fault: names each fault of the group size") {
  using enum shape_fault::kind;
  CHECK(find_group_fault(4, 8, 3) == shape_fault{group_too_small, 3, 4});
  CHECK(find_group_fault(4, 8, 9) == shape_fault{group_too_large, 9, 8});
  CHECK(find_group_fault(4, 5, 4) == shape_fault{last_group_too_small, 1, 4});
  CHECK(!find_group_fault(4, 9, 5));
  CHECK(find_group_fault(4, 3, 2) == shape_fault{group_too_small, 2, 3});
  CHECK(!find_group_fault(4, 3, 3));
}
