// SPDX-License-Identifier: MIT
#include "cleave/partition/slices/balance.hpp"

#include <doctest/doctest.h>

using namespace cleave;

TEST_CASE("unpriced: leaves bounds only if at most 2 % of nodes and of values lack a price") {
  CHECK(unpriced{}.node_share() == 0);
  CHECK(unpriced{}.value_share() == 0);
  CHECK(!unpriced{}.any());
  CHECK(unpriced{}.leaves_bounds());
  unpriced const u{.nodes = 1, .of_nodes = 4, .values = 3, .of_values = 6};
  CHECK(u.node_share() == 0.25);
  CHECK(u.value_share() == 0.5);
  CHECK(u.any());
  CHECK(!u.leaves_bounds());
  CHECK(unpriced{.nodes = 2, .of_nodes = 100, .values = 2, .of_values = 100}.leaves_bounds());
  CHECK(!unpriced{.nodes = 3, .of_nodes = 100, .values = 0, .of_values = 100}.leaves_bounds());
  CHECK(!unpriced{.nodes = 0, .of_nodes = 100, .values = 3, .of_values = 100}.leaves_bounds());
}
