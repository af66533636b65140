// SPDX-License-Identifier: MIT
#include "cleave/partition/model/partition.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

using namespace cleave;

TEST_CASE("part_members: lists each part's nodes in order and omits nodes without a part") {
  auto const members = part_members({{part_id{2}, part_id{0}, no_part, part_id{2}, part_id{0}}, 4});
  CHECK(members.rows() == 4);
  CHECK(members.first == std::vector<std::size_t>{0, 2, 2, 4, 4});
  CHECK(members.item == std::vector<std::size_t>{1, 4, 0, 3});
  CHECK(part_members({}).rows() == 0);
}
