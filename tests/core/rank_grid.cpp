// SPDX-License-Identifier: MIT
#include "cleave/core/rank_grid.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("rank_grid: maps ranks to coordinates one to one, for every order of the axes") {
  using enum rank_axis;
  std::array<rank_grid::axes, 6> const orders{{{pipe, data, model},
                                               {pipe, model, data},
                                               {data, pipe, model},
                                               {data, model, pipe},
                                               {model, pipe, data},
                                               {model, data, pipe}}};
  for (auto const& order : orders) {
    rank_grid const grid({3, 2, 4}, order);
    REQUIRE(grid.size() == 24);
    std::uint32_t rank = 0;
    rank_coordinates at;
    for (at.on(order[0]) = 0; at.on(order[0]) < grid.size(order[0]); ++at.on(order[0]))
      for (at.on(order[1]) = 0; at.on(order[1]) < grid.size(order[1]); ++at.on(order[1]))
        for (at.on(order[2]) = 0; at.on(order[2]) < grid.size(order[2]); ++at.on(order[2])) {
          CHECK(grid[at] == rank_id{rank});
          CHECK(grid[rank_id{rank}] == at);
          ++rank;
        }
  }
}

TEST_CASE("rank_grid: ranks_at returns ascending ranks, and every rank is at one position of an axis") {
  using enum rank_axis;
  rank_grid const grid({3, 2, 2}, {data, pipe, model});
  std::set<rank_id> seen;
  for (std::uint32_t place = 0; place < 3; ++place) {
    auto const ranks = grid.ranks_at(pipe, place);
    CHECK(ranks.size() == 4);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      CHECK(grid[ranks[i]].pipe == place);
      CHECK((i == 0 || ranks[i - 1] < ranks[i]));
      CHECK(seen.insert(ranks[i]).second);
    }
  }
  CHECK(grid.ranks_at(pipe, 1) == std::vector{rank_id{2}, rank_id{3}, rank_id{8}, rank_id{9}});
  CHECK(grid.ranks_at(pipe, 3).empty());
}

TEST_CASE("rank_grid: rejects an axis that is repeated, empty or too large and names it") {
  using enum rank_axis;
  auto const axis_of = [](rank_coordinates size, rank_grid::axes order) {
    try {
      rank_grid const grid(size, order);
    } catch (rank_grid_error const& e) {
      return rank_axis_name(e.witness.axis);
    }
    return "none";
  };
  CHECK(axis_of({1, 1, 1}, {pipe, data, model}) == std::string("none"));
  CHECK(axis_of({1, 1, 1}, {pipe, data, data}) == std::string("data"));
  CHECK(axis_of({1, 1, 0}, {pipe, data, model}) == std::string("model"));
  CHECK(axis_of({0, 1, 1}, {model, data, pipe}) == std::string("pipe"));
  CHECK(axis_of({0xffffffff, 0xffffffff, 2}, {pipe, data, model}) == std::string("data"));
  CHECK(axis_of({0xffffffff, 1, 1}, {pipe, data, model}) == std::string("none"));
  CHECK(find_rank_grid_fault({1, 0, 1}, {pipe, data, model}) ==
        rank_grid_fault{rank_grid_fault::kind::no_place, data});
}
