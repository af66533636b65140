// SPDX-License-Identifier: MIT
#include "cleave/run/model/edge_layout.hpp"

#include <doctest/doctest.h>

using namespace cleave;

TEST_CASE("run_layouts: rows replace the extent of the batch axis only") {
  run_layouts l{.edges = {{.shape = {3, 5}, .batch_axis = 0}, {.shape = {3, 5}, .batch_axis = 0}},
                .rows = {2, 3}};
  CHECK(l.shape_of(1, microbatch_id{0}) == tensor_shape{2, 5});
  CHECK(l.shape_of(1, microbatch_id{1}) == tensor_shape{3, 5});
  l.edges[1].batch_axis = 1;
  CHECK(l.shape_of(1, microbatch_id{0}) == tensor_shape{3, 2});
  l.edges[1].batch_axis.reset();
  CHECK(l.shape_of(1, microbatch_id{0}) == tensor_shape{3, 5});
  l.rows.clear();
  CHECK(l.shape_of(0, microbatch_id{1}) == tensor_shape{3, 5});
}
