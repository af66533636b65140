// SPDX-License-Identifier: MIT
#include "cleave/run/model/ports.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace cleave;

using namespace cleave::detail;

namespace {
constexpr stage_id s0{0}, s1{1};
dataflow const wired{.stages = 2,
                     .edges = {{s0, 1, s1, 1},
                               {the_caller, 0, s0, 0},
                               {s0, 0, the_caller, 0},
                               {s0, 1, the_caller, 1},
                               {the_caller, 0, s1, 0}}};
}  // namespace

TEST_CASE("ports: lists a stage's edges by input and by result") {
  auto const of_stage = ports(wired);
  REQUIRE(of_stage.size() == 2);
  CHECK(of_stage[0] == stage_ports{{1}, {{0, 2}, {1, 0}, {1, 3}}, 2});
  CHECK(of_stage[1] == stage_ports{{4, 0}, {}, 0});
}

TEST_CASE("shared_edges: marks edges that carry the same value, and find_shared_edge returns the first") {
  CHECK(shared_edges(wired) == std::vector<char>{1, 1, 0, 1, 1});
  CHECK(find_shared_edge(wired) == 0);
  dataflow const plain{.stages = 1, .edges = {{the_caller, 0, s0, 0}, {s0, 0, the_caller, 0}}};
  CHECK_FALSE(find_shared_edge(plain));
  CHECK_FALSE(find_shared_edge({}));
}
