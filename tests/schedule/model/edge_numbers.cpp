// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_dependencies.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("edge_numbers: finds an edge by its two stages") {
  stage_placement const p{
      2,
      {rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}},
      {{stage_id{0}, stage_id{1}}, {stage_id{0}, stage_id{3}}, {stage_id{2}, stage_id{3}}}};
  edge_numbers const edges(p);
  CHECK(edges.find(0, 3) == 1);
  CHECK(edges.find(2, 3) == 2);
  CHECK(!edges.find(3, 2));
  CHECK(!edges.find(1, 2));
  CHECK(std::vector<std::uint32_t>(edges.to(3).begin(), edges.to(3).end()) ==
        std::vector<std::uint32_t>{1, 2});
  CHECK(edges.to(0).empty());
  CHECK(edges.begin_from(0) == 0);
  CHECK(edges.end_from(0) == 2);
  CHECK(edges.begin_from(3) == edges.end_from(3));
}

TEST_CASE("find_stage_placement_fault: finds the invalid stage or edge of a placement") {
  using enum stage_placement_fault::kind;
  auto const p = loop_placement(2, 2);
  CHECK(!find_stage_placement_fault(p));
  auto wrong = p;
  wrong.rank_of[3] = rank_id{2};
  CHECK(find_stage_placement_fault(wrong) == stage_placement_fault{unknown_rank, 3});
  wrong = p;
  wrong.edges[1].to = stage_id{4};
  CHECK(find_stage_placement_fault(wrong) == stage_placement_fault{unknown_stage, 1});
  wrong = p;
  wrong.edges[2] = wrong.edges[1];
  CHECK(find_stage_placement_fault(wrong) == stage_placement_fault{edge_order, 2});
  CHECK_THROWS_WITH_AS(edge_numbers{wrong},
                       "placement: edge #2 is not greater than the one before it; sort the edges, each once",
                       stage_placement_error);
}
