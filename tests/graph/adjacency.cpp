// SPDX-License-Identifier: MIT
#include "cleave/graph/adjacency.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

using namespace cleave;

TEST_CASE("adjacency: rows are read in place, and weights that are not there are 1") {
  adjacency<std::uint32_t, int, float> path{
      .first = {0, 1, 3, 4}, .head = {1, 0, 2, 1}, .node_weight = {}, .edge_weight = {}};
  auto view = path.view();
  CHECK(view.nodes() == 3);
  CHECK(view.arcs() == 4);
  CHECK(std::vector(view.neighbours(1).begin(), view.neighbours(1).end()) ==
        std::vector<std::uint32_t>{0, 2});
  CHECK(view.weight(2) == 1);
  CHECK(view.weight_of_arc(3) == 1.0f);
  path.node_weight = {3, 4, 5};
  path.edge_weight = {0.5f, 0.5f, 2, 2};
  view = path.view();
  CHECK(view.weight(2) == 5);
  CHECK(view.weight_of_arc(1) == 0.5f);
  CHECK(view.head.data() == path.head.data());
}

TEST_CASE("adjacency: no arrays are no nodes") {
  CHECK(adjacency_view<int>{}.nodes() == 0);
  CHECK(adjacency<int>{}.view().nodes() == 0);
}
