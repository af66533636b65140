// SPDX-License-Identifier: MIT
#include "cleave/backward/ties.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;
using enum rank_axis;

namespace {

tie tie_between(std::vector<std::pair<std::string, std::uint32_t>> const& members) {
  tie t;
  for (auto const& [name, stage] : members) t.members.push_back({name, "p", stage_id{stage}});
  return t;
}

std::vector<std::vector<rank_id>> ids(std::vector<std::vector<std::uint32_t>> const& groups) {
  std::vector<std::vector<rank_id>> made;
  for (auto const& g : groups) {
    made.emplace_back();
    for (auto const r : g) made.back().push_back(rank_id{r});
  }
  return made;
}

}  // namespace

TEST_CASE("ranks_of_tie: makes one group of ranks for each position on the other axes") {
  rank_grid const grid({4, 1, 2}, {pipe, data, model});
  auto const ranks = ranks_of_tie(grid, tie_between({{"head.weight", 3}, {"wte.weight", 0}}));
  CHECK(ranks.groups == ids({{0, 6}, {1, 7}}));
  CHECK(ranks.stages == std::vector{stage_id{0}, stage_id{3}});
  rank_grid const other({2, 2, 1}, {data, pipe, model});
  CHECK(ranks_of_tie(other, tie_between({{"a", 0}, {"b", 1}})).groups == ids({{0, 1}, {2, 3}}));
}

TEST_CASE("registration_of_tie: each rank gets all groups, and a rank that holds the weight its name") {
  rank_grid const grid({3, 1, 2}, {pipe, data, model});
  auto const t = tie_between({{"wte.weight", 0}, {"decoder.head.weight", 2}});
  for (std::uint32_t r = 0; r < grid.size(); ++r) {
    auto const row = registration_of_tie(grid, t, rank_id{r});
    CHECK(row.key == "wte_weight");
    CHECK(row.groups == ids({{0, 4}, {1, 5}}));
    CHECK(row.held == (grid[rank_id{r}].pipe != 1));
    CHECK(row.name == (row.held ? "weight" : ""));
    CHECK(row.owner == (grid[rank_id{r}].pipe == 0 ? "wte" : row.held ? "decoder.head" : ""));
  }
}

TEST_CASE("find_tie_rank_fault: reports a stage outside the grid and, if one is allowed, a second name") {
  rank_grid const grid({2, 1, 1}, {pipe, data, model});
  auto const missing = find_tie_rank_fault(grid, tie_between({{"a", 0}, {"b", 5}}));
  REQUIRE(missing);
  CHECK(*missing == tie_rank_fault{tie_rank_fault::kind::no_such_stage, "b", stage_id{5}});
  CHECK_THROWS_AS(ranks_of_tie(grid, tie_between({{"a", 0}, {"b", 5}})), tie_rank_error);

  auto const twice = tie_between({{"a", 1}, {"b", 1}, {"c", 0}});
  CHECK_FALSE(find_tie_rank_fault(grid, twice));
  CHECK(ranks_of_tie(grid, twice).groups == ids({{0, 1, 1}}));
  CHECK(find_tie_rank_fault(grid, twice, names_in_stage::one)->member == "b");
  CHECK_THROWS_AS(registration_of_tie(grid, twice, rank_id{0}), tie_rank_error);
}

TEST_CASE("find_tie_rank_fault: reports a tied weight that the outer graph holds") {
  rank_grid const grid({2, 1, 1}, {pipe, data, model});
  tie t = tie_between({{"a", 0}});
  t.members.push_back({"w", "p", the_caller});
  CHECK(find_tie_rank_fault(grid, t)->stage == the_caller);
}
