// SPDX-License-Identifier: MIT
#include "cleave/core/ids.hpp"

#include <doctest/doctest.h>

#include <type_traits>

using namespace cleave;

static_assert(!std::is_convertible_v<stage_id, part_id> && !std::is_convertible_v<stage_id, int>);
static_assert(!std::is_convertible_v<int, stage_id>);
static_assert(index(microbatch_id{7}) == 7);
static_assert(id<rank_id> && !id<int> && !id<double>);

TEST_CASE("ids: ids compare by number, and no_part is greater than any part") {
  CHECK(part_id{1} < part_id{2});
  CHECK(no_part > part_id{0xfffffffe});
}
