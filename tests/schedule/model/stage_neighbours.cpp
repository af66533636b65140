// SPDX-License-Identifier: MIT
#include "cleave/schedule/model/schedule_dependencies.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <span>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using numbers = std::vector<std::uint32_t>;

namespace {

numbers listed(std::span<std::uint32_t const> s) { return {s.begin(), s.end()}; }

}  // namespace

TEST_CASE("stage_neighbours: lists neighbours in both directions and the depth of each stage") {
  auto p = loop_placement(2, 2);
  p.edges.push_back({stage_id{0}, stage_id{3}});
  stage_neighbours const n(p);
  CHECK(listed(n.after(0)) == numbers{1, 3});
  CHECK(listed(n.before(3)) == numbers{2, 0});
  CHECK(listed(n.before(0)).empty());
  CHECK(n.depths() == numbers{0, 1, 2, 3});
}

TEST_CASE("stage_neighbours: depths start anew in each chain, and a cycle is rejected") {
  auto p = bidirectional_placement(3);
  CHECK(stage_neighbours(p).depths() == numbers{0, 1, 2, 0, 1, 2});
  p.edges.push_back({stage_id{2}, stage_id{0}});
  CHECK_THROWS_AS(stage_neighbours(p).depths(), infeasible_error);
}
