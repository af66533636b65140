// SPDX-License-Identifier: MIT
#include "cleave/partition/separator/nested_dissection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "cleave/partition/separator/cholesky_fill.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;
using cleave::testing::rng;
using graph_arrays = adjacency<std::uint32_t>;

namespace {

/// Returns the entries of each column of the factor, by eliminating one node after the other.
std::vector<std::uint32_t> eliminated_columns(graph_arrays const& g,
                                              std::vector<std::uint32_t> const& order) {
  auto const nodes = g.view().nodes();
  std::vector<std::set<std::uint32_t>> near(nodes);
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (auto const other : g.view().neighbours(n))
      if (other != n) near[n].insert(other);
  std::vector<std::uint32_t> column;
  for (auto const n : order) {
    column.push_back(static_cast<std::uint32_t>(near[n].size() + 1));
    for (auto const a : near[n]) {
      near[a].erase(n);
      for (auto const b : near[n])
        if (a != b) near[a].insert(b);
    }
  }
  return column;
}

std::vector<std::uint32_t> identity(std::size_t nodes) {
  std::vector<std::uint32_t> order(nodes);
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

/// Checks the permutation, and returns the entries of the factor.
std::uint64_t checked(graph_arrays const& g, dissection_options const& options = {}) {
  auto const o = nested_dissection(g.view(), options);
  CHECK(!find_order_fault(g.view().nodes(), o.order));
  REQUIRE(o.position.size() == o.order.size());
  bool inverse = true;
  for (std::uint32_t at = 0; at < o.order.size(); ++at) inverse = inverse && o.position[o.order[at]] == at;
  CHECK(inverse);
  return cholesky_fill(g.view(), o.order).nonzeros;
}

graph_arrays path_of(std::uint32_t nodes) {
  graph_arrays g;
  for (std::uint32_t n = 0; n < nodes; ++n) {
    if (n > 0) g.targets.push_back(n - 1);
    if (n + 1 < nodes) g.targets.push_back(n + 1);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

graph_arrays star_of(std::uint32_t leaves) {
  graph_arrays g;
  for (std::uint32_t n = 1; n <= leaves; ++n) g.targets.push_back(n);
  g.offsets.push_back(leaves);
  for (std::uint32_t n = 1; n <= leaves; ++n) {
    g.targets.push_back(0);
    g.offsets.push_back(leaves + n);
  }
  return g;
}

/// A three-dimensional grid with seven-point stencil.
graph_arrays cube_of(std::uint32_t side) {
  graph_arrays g;
  for (std::uint32_t z = 0; z < side; ++z)
    for (std::uint32_t y = 0; y < side; ++y)
      for (std::uint32_t x = 0; x < side; ++x) {
        auto const n = (z * side + y) * side + x;
        if (z > 0) g.targets.push_back(n - side * side);
        if (y > 0) g.targets.push_back(n - side);
        if (x > 0) g.targets.push_back(n - 1);
        if (x + 1 < side) g.targets.push_back(n + 1);
        if (y + 1 < side) g.targets.push_back(n + side);
        if (z + 1 < side) g.targets.push_back(n + side * side);
        g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
      }
  return g;
}

}  // namespace

TEST_CASE("cholesky_fill: equals a symbolic elimination") {
  rng r(1);
  for (std::size_t i = 0; i < testing::cases(50, 150); ++i) {
    auto const nodes = 1 + r.below(40);
    auto const g = testing::random_adjacency(r, nodes, r.below(3 * nodes), 1);
    auto order = identity(nodes);
    for (auto at = nodes; at > 1; --at) std::swap(order[at - 1], order[r.below(at)]);
    auto const size = cholesky_fill(g.view(), order);
    auto const columns = eliminated_columns(g, order);
    CHECK(size.column == columns);
    std::uint64_t entries = 0;
    double flops = 0;
    for (auto const c : columns) entries += c, flops += static_cast<double>(c) * c;
    CHECK(size.nonzeros == entries);
    CHECK(size.flops == flops);
  }
}

TEST_CASE("cholesky_fill: has known values for paths, stars and the empty graph") {
  CHECK(cholesky_fill(path_of(100).view(), identity(100)).nonzeros == 199);
  CHECK(cholesky_fill(star_of(9).view(), identity(10)).nonzeros == 55);
  CHECK(cholesky_fill(graph_arrays{}.view(), {}).nonzeros == 0);
  CHECK(cholesky_fill(path_of(200'000).view(), identity(200'000)).nonzeros == 399'999);
}

TEST_CASE("cholesky_fill: rejects an order that is not a permutation") {
  auto const g = path_of(3);
  CHECK(find_order_fault(3, std::vector<std::uint32_t>{0, 1, 3}) == 2);
  CHECK(find_order_fault(3, std::vector<int>{0, -1, 2}) == 1);
  CHECK(find_order_fault(3, std::vector<std::uint32_t>{0, 0, 1}) == 1);
  CHECK(find_order_fault(3, std::vector<std::uint32_t>{0, 1}) == 2);
  CHECK(find_order_fault(3, std::vector<std::uint32_t>{0, 1, 2, 3}) == 3);
  CHECK_THROWS_AS(cholesky_fill(g.view(), {0, 1, 1}), detail::order_error);
}

TEST_CASE("nested_dissection: returns permutations of random graphs, equal for equal seeds") {
  rng r(2);
  for (std::size_t i = 0; i < testing::cases(6, 60); ++i) {
    auto const nodes = 1 + r.below(testing::cases(500, 800));
    auto const g = testing::random_adjacency(r, nodes, r.below(4 * nodes), 1 + r.below(3));
    dissection_options const options{.imbalance = 0.1 * static_cast<double>(r.below(6)),
                                     .restarts = static_cast<std::uint32_t>(1 + r.below(5)),
                                     .leaf = static_cast<std::uint32_t>(r.below(50)),
                                     .seed = r.below(100)};
    checked(g, options);
    CHECK(nested_dissection(g.view(), options).order == nested_dissection(g.view(), options).order);
  }
}

TEST_CASE("nested_dissection: does not fill trees and complete graphs") {
  auto const many = static_cast<std::uint32_t>(testing::cases(30'000, 200'000));
  CHECK(checked(path_of(many)) == 2 * many - 1);
  CHECK(checked(star_of(many)) == 2 * many + 1);
  std::vector<testing::weighted_edge> edges;
  for (std::uint32_t a = 0; a < 60; ++a)
    for (std::uint32_t b = 0; b < a; ++b) edges.push_back({a, b});
  CHECK(checked(testing::adjacency_of(60, edges)) == 60 * 61 / 2);
  rng r(3);
  edges.clear();
  for (std::uint32_t n = 1; n < 2000; ++n) edges.push_back({n, static_cast<std::uint32_t>(r.below(n))});
  CHECK(checked(testing::adjacency_of(2000, edges)) == 3999);
}

TEST_CASE("nested_dissection: accepts empty, edgeless and disconnected graphs") {
  CHECK(checked(graph_arrays{}) == 0);
  CHECK(checked(testing::adjacency_of(1, {})) == 1);
  CHECK(checked(testing::adjacency_of(1000, {})) == 1000);
  auto const one = testing::grid_adjacency(20, 20);
  graph_arrays many;
  for (std::uint32_t copy = 0; copy < testing::cases(10, 30); ++copy) {
    for (auto const target : one.targets) many.targets.push_back(target + 400 * copy);
    for (std::size_t n = 1; n < one.offsets.size(); ++n)
      many.offsets.push_back(one.offsets[n] + copy * static_cast<std::uint32_t>(one.targets.size()));
  }
  CHECK(checked(many) < (testing::cases(10, 30) + 1) * checked(one));
}

TEST_CASE("nested_dissection: fills much less than the natural order, and reports its separators") {
  auto const side = static_cast<std::uint32_t>(testing::cases(40, 60)),
             edge = static_cast<std::uint32_t>(testing::cases(10, 14));
  auto const grid = testing::grid_adjacency(side, side), cube = cube_of(edge);
  CHECK(5 * checked(grid) < 2 * cholesky_fill(grid.view(), identity(side * side)).nonzeros);
  auto const o = nested_dissection(grid.view());
  REQUIRE(!o.separator_sizes.empty());
  CHECK(o.separator_sizes[0] <= side);
  CHECK(2 * checked(cube) < cholesky_fill(cube.view(), identity(edge * edge * edge)).nonzeros);
}

TEST_CASE("nested_dissection: keeps nodes with equal neighbours together") {
  // A grid in which each node is three nodes.
  auto const grid = testing::grid_adjacency(25, 25);
  graph_arrays g;
  for (std::uint32_t n = 0; n < 3 * 625; ++n) {
    for (std::uint32_t same = n / 3 * 3; same < n / 3 * 3 + 3; ++same)
      if (same != n) g.targets.push_back(same);
    for (auto const other : grid.view().neighbours(n / 3))
      for (std::uint32_t i = 0; i < 3; ++i) g.targets.push_back(3 * other + i);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  auto const entries = checked(g);
  CHECK(entries < 10 * checked(grid));  // each block of the factor has 9 entries
  auto const o = nested_dissection(g.view());
  CHECK(o.separator_sizes.at(0) % 3 == 0);
}

TEST_CASE("nested_dissection: rejects invalid graphs and options") {
  auto g = testing::grid_adjacency(3, 3);
  CHECK_THROWS_AS(nested_dissection(g.view(), {.imbalance = -1}), detail::separator_option_error);
  CHECK_THROWS_AS(nested_dissection(g.view(), {.restarts = 0}), detail::separator_option_error);
  g.targets[0] = 8;
  CHECK_THROWS_AS(nested_dissection(g.view()), detail::adjacency_error);
  CHECK_THROWS_AS(cholesky_fill(g.view(), identity(9)), detail::adjacency_error);
}

TEST_CASE("nested_dissection: orders graphs without light separators by minimum degree alone") {
  rng r(4);
  std::vector<testing::weighted_edge> edges;
  auto const nodes = static_cast<std::uint32_t>(testing::cases(750, 1500));
  for (std::uint32_t i = 0; i < 4 * nodes; ++i)
    edges.push_back({static_cast<std::uint32_t>(r.below(nodes)), static_cast<std::uint32_t>(r.below(nodes))});
  auto const g = testing::adjacency_of(nodes, edges);
  CHECK(nested_dissection(g.view()).separator_sizes.empty());
  CHECK(checked(g) == checked(g, {.leaf = nodes}));
}
