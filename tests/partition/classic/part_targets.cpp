// SPDX-License-Identifier: MIT
#include "cleave/partition/classic/part_targets.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "cleave/core/error.hpp"
#include "cleave/partition/classic/detail/integral_graph.hpp"
#include "cleave/partition/classic/measured_partition.hpp"
#include "support/error_text.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;

using namespace cleave::detail;

TEST_CASE("targets_of: rounds shares up and limits down") {
  using sums = std::vector<std::int64_t>;
  auto const equal = targets_of(100, 3, {.imbalance = 0.03});
  CHECK(equal.target == sums{34, 34, 34});
  CHECK(equal.most == sums{35, 35, 35});
  auto const own = targets_of(10, 3, {.share = {1, 1, 3}, .imbalance = {0.0, 1.0, 0.5}});
  CHECK(own.target == sums{2, 2, 6});
  CHECK(own.most == sums{2, 4, 9});
  CHECK(targets_of(7, 2, {.imbalance = 100.0}).most == sums{7, 7});
  CHECK(targets_of(0, 2, {}).most == sums{0, 0});
  auto const all = std::numeric_limits<std::int64_t>::max();
  CHECK(targets_of(all, 1, {.imbalance = 1e300}).most == sums{all});
  CHECK(targets_of(all, 2, {.share = {1e-300, 1}}).most[1] == all);
  CHECK(overload(sums{5, 2}, sums{3, 4}) == 2);
}

TEST_CASE("targets_of: rejects invalid part counts, shares and imbalances") {
  CHECK_THROWS_AS(targets_of(1, 0, {}), error);
  CHECK_THROWS_AS(targets_of(1, 2, {.share = {1, 2, 3}}), error);
  CHECK_THROWS_AS(targets_of(1, 2, {.imbalance = {0.1, 0.1, 0.1}}), error);
  CHECK(testing::error_text([] { targets_of(1, 2, {.share = {1, -1}}); }).find("part 1") == 0);
  CHECK_THROWS_AS(targets_of(1, 2, {.share = {1e308, 1e308}}), error);
  CHECK_THROWS_AS(targets_of(1, 1, {.imbalance = std::numeric_limits<double>::quiet_NaN()}), error);
}

TEST_CASE("bounds_at_shares: picks the bound nearest to each share that leaves every part a node") {
  std::vector<std::uint32_t> const row{2, 0, 1, 3};
  std::vector<std::int64_t> const weight{1, 1, 6, 4};  // along the row: 6, 1, 1, 4
  using places = std::vector<std::size_t>;
  CHECK(bounds_at_shares(row, weight, std::vector<std::int64_t>{6, 6}) == places{0, 1, 4});
  CHECK(bounds_at_shares(row, weight, std::vector<std::int64_t>{8, 4}) == places{0, 3, 4});
  CHECK(bounds_at_shares(row, weight, std::vector<std::int64_t>{1, 1, 1, 1}) == places{0, 1, 2, 3, 4});
  CHECK(bounds_at_shares(row, weight, std::vector<std::int64_t>{0, 0}) == places{0, 1, 4});
  CHECK(bounds_at_shares({}, weight, std::vector<std::int64_t>{1, 1, 1}) == places{0, 0, 0, 0});
}

TEST_CASE("integral_graph_of: drops loops, keeps parallel edges and scales fractions to integers") {
  auto const g = testing::adjacency_of(3, {{0, 0}, {0, 1, 2}, {0, 1, 3}, {1, 2, 4}});
  auto const copy = integral_graph_of(g.view());
  CHECK(copy.head == std::vector<std::uint32_t>{1, 1, 0, 0, 2, 1});
  CHECK(copy.total() == 3);
  CHECK(cut_weight(copy, std::vector<int>{0, 1, 1}) == 5);
  adjacency<short, float, double> const light{{0, 1, 2}, {1, 0}, {0.25f, 0.75f}, {1e-9, 1e-9}};
  auto const scaled = integral_graph_of(light.view());
  CHECK(scaled.node_weight[1] == 3 * scaled.node_weight[0]);
  CHECK(scaled.edge_weight[0] > std::int64_t{1} << 50);
  std::vector<std::uint32_t> number(3);
  auto const part = subgraph(copy, std::vector<std::uint32_t>{2, 1}, number);
  CHECK(part.head == std::vector<std::uint32_t>{1, 0});
  CHECK(part.edge_weight == std::vector<std::int64_t>{4, 4});
}

TEST_CASE("measured: returns cut, weights and imbalance in the units of the graph") {
  auto const g = testing::adjacency_of(3, {{0, 1, 2}, {0, 1, 3}, {1, 2, 4}});
  auto const m = measured(g.view(), partition{{part_id{0}, part_id{1}, part_id{1}}, 2});
  CHECK(m.cut == 5);
  CHECK(m.part_weights == std::vector<double>{1, 2});
  CHECK(m.imbalance == 0);
  adjacency<short, float, double> const light{{0, 1, 2}, {1, 0}, {0.25f, 0.75f}, {0.5, 0.5}};
  auto const fraction = measured(light.view(), partition{{part_id{0}, part_id{1}}, 2});
  CHECK(fraction.cut == 0.5);
  CHECK(fraction.imbalance == 0.5);
}
