// SPDX-License-Identifier: MIT
#include "cleave/formats/cost_table.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "cleave/schedule/model/placement.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("stated_costs: derives the missing times of a stage from the stated ones") {
  auto const costs = [](std::optional<double> f, std::optional<double> b, std::optional<double> i,
                        std::optional<double> w) {
    stated_costs stated;
    stated.times[0] = f, stated.times[1] = b, stated.times[2] = i, stated.times[3] = w;
    return stated.cost();
  };
  constexpr auto no = std::nullopt;
  CHECK(costs(3, no, no, no) == stage_cost{3, 6, 3, 3, 3});
  CHECK(costs(3, 5, no, no) == stage_cost{3, 5, 2.5, 2.5, 3});
  CHECK(costs(3, 5, 4, no) == stage_cost{3, 5, 4, 1, 3});
  CHECK(costs(3, 5, no, 4) == stage_cost{3, 5, 1, 4, 3});
  CHECK(costs(3, 5, 6, no) == stage_cost{3, 5, 6, 0, 3});
  CHECK(costs(3, no, 2, no) == stage_cost{3, 4, 2, 2, 3});
  CHECK(costs(3, no, no, 2) == stage_cost{3, 4, 2, 2, 3});
  CHECK(costs(3, no, 1, 2) == stage_cost{3, 3, 1, 2, 3});
  CHECK(costs(3, 7, 1, 2) == stage_cost{3, 7, 1, 2, 3});
}

TEST_CASE("simulate_options_of: the link of a pair overrides the link of all pairs") {
  auto const place = loop_placement(3);
  cost_table table{.stages = {{}}, .base_latency = 0.5};
  CHECK(simulate_options_of(table, place).links.empty());
  CHECK(simulate_options_of(table, place).base_latency == 0.5);
  table.link = {1, 10};
  CHECK(simulate_options_of(table, place).links == std::vector<rank_link>{{1, 10}});
  table.links = {{rank_id{0}, rank_id{2}, {7, 8}}};
  auto const options = simulate_options_of(table, place);
  REQUIRE(options.links.size() == 9);
  for (std::size_t i = 0; i < 9; ++i)
    CHECK(options.links[i] == (i == 2 ? rank_link{7, 8} : rank_link{1, 10}));
  table.links = {{rank_id{0}, rank_id{3}, {7, 8}}};
  CHECK_THROWS_AS(simulate_options_of(table, place), pair_link_error);
}
