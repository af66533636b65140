// SPDX-License-Identifier: MIT
#include "cleave/partition/separator/vertex_separator.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;
using cleave::testing::rng;
using graph_arrays = adjacency<std::uint32_t>;

namespace {

/// Returns the largest weight of a side that the options allow.
std::int64_t side_limit(graph_arrays const& g, double imbalance) {
  std::int64_t total = 0;
  for (std::size_t n = 0; n < g.view().nodes(); ++n) total += g.view().weight(n);
  auto const slack = static_cast<double>(total) / 2 * imbalance;
  if (slack >= static_cast<double>(total)) return total;
  return std::min(total, total - total / 2 + static_cast<std::int64_t>(slack));
}

/// Checks sides, weights and limits. Returns the weight of the separator.
std::int64_t checked(graph_arrays const& g, separator_options const& options = {}) {
  auto const s = vertex_separator(g.view(), options);
  REQUIRE(s.side.size() == g.view().nodes());
  CHECK(!find_separator_fault(g.view(), s.side));
  std::array<std::int64_t, 3> weights{};
  for (std::size_t n = 0; n < s.side.size(); ++n)
    weights.at(static_cast<std::size_t>(s.side[n])) += g.view().weight(n);
  CHECK(s.weights == weights);
  auto const limit = side_limit(g, options.imbalance);
  CHECK(std::max(weights[0], weights[1]) <= limit);
  return weights[2];
}

/// Returns the weight of the lightest separator, from all assignments of sides. O(3^n m).
std::int64_t lightest_separator(graph_arrays const& g, std::int64_t limit) {
  auto const n = g.view().nodes();
  auto least = std::numeric_limits<std::int64_t>::max();
  std::size_t codes = 1;
  for (std::size_t i = 0; i < n; ++i) codes *= 3;
  std::vector<int> side(n);
  for (std::size_t code = 0; code < codes; ++code) {
    auto rest = code;
    std::array<std::int64_t, 3> weights{};
    for (std::size_t i = 0; i < n; ++i, rest /= 3) {
      side[i] = static_cast<int>(rest % 3);
      weights.at(rest % 3) += g.view().weight(i);
    }
    if (std::max(weights[0], weights[1]) > limit || weights[2] >= least) continue;
    bool valid = true;
    for (std::size_t i = 0; i < n && valid; ++i)
      for (auto const other : g.view().neighbours(i)) valid = valid && side[i] + side[other] != 1;
    if (valid) least = weights[2];
  }
  return least;
}

graph_arrays star_of(std::uint32_t leaves) {
  std::vector<testing::weighted_edge> edges;
  for (std::uint32_t i = 1; i <= leaves; ++i) edges.push_back({0, i});
  return testing::adjacency_of(leaves + 1, edges);
}

graph_arrays complete_graph(std::uint32_t nodes) {
  std::vector<testing::weighted_edge> edges;
  for (std::uint32_t a = 0; a < nodes; ++a)
    for (std::uint32_t b = 0; b < a; ++b) edges.push_back({a, b});
  return testing::adjacency_of(nodes, edges);
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

}  // namespace

TEST_CASE("vertex_separator: is never lighter than the optimum of small graphs, and mostly equal to it") {
  rng r(1);
  int graphs = 0, optimal = 0;
  for (std::size_t nodes = 1; nodes <= 9; ++nodes)
    for (std::size_t i = 0; i < testing::cases(3, 12); ++i) {
      auto const g = testing::random_adjacency(r, nodes, r.below(2 * nodes + 1), i % 2 == 0 ? 1 : 4);
      for (auto const imbalance : {0.0, 0.2}) {
        auto const found = checked(g, {.imbalance = imbalance});
        auto const least = lightest_separator(g, side_limit(g, imbalance));
        CHECK(found >= least);
        optimal += found == least;
        ++graphs;
      }
    }
  MESSAGE(optimal, " of ", graphs, " separators are optimal");
  CHECK(optimal >= graphs * 9 / 10);
}

TEST_CASE("vertex_separator: finds the separators of grids, stars, paths and rings of cliques") {
  CHECK(checked(testing::grid_adjacency(40, 20)) == 20);
  CHECK(checked(star_of(1000)) == 1);
  CHECK(checked(path_of(static_cast<std::uint32_t>(testing::cases(40'000, 200'000)))) == 1);
  CHECK(checked(testing::clique_ring(6, 5)) == 2);
}

TEST_CASE("vertex_separator: accepts empty, edgeless, complete and disconnected graphs") {
  auto const nodes = static_cast<std::uint32_t>(testing::cases(100, 150));
  CHECK(checked(graph_arrays{}) == 0);
  CHECK(checked(testing::adjacency_of(1, {})) == 0);
  CHECK(checked(testing::adjacency_of(1000, {})) == 0);
  CHECK(checked(complete_graph(10)) == 4);
  CHECK(checked(complete_graph(nodes)) == 2 * nodes / 5);
  std::vector<testing::weighted_edge> edges;
  for (std::uint32_t n = 1; n < 300; ++n)
    if (n != 150) edges.push_back({n - 1, n});
  CHECK(checked(testing::adjacency_of(300, edges)) == 0);
}

TEST_CASE("vertex_separator: puts a node that is too heavy for a side into the separator") {
  auto g = path_of(7);
  g.node_weight = {1, 1, 1, 100, 1, 1, 1};
  CHECK(checked(g) == 100);
  g = testing::adjacency_of(3, {});
  g.node_weight = {1, 100, 1};
  CHECK(checked(g) == 100);
  g.node_weight = {0, 0, 0};
  CHECK(checked(g) == 0);
  auto const huge = std::numeric_limits<std::int64_t>::max() / 4;
  g = path_of(4);
  g.node_weight = {huge, huge, huge, huge};
  CHECK(checked(g, {.imbalance = 0.5}) == huge);
  CHECK(checked(g, {.imbalance = 1e9}) == 0);
}

TEST_CASE("vertex_separator: results are valid for random graphs, and equal for equal seeds") {
  rng r(2);
  for (std::size_t i = 0; i < testing::cases(8, 40); ++i) {
    auto const nodes = 1 + r.below(testing::cases(300, 600));
    auto const g = testing::random_adjacency(r, nodes, r.below(3 * nodes), i % 2 == 0 ? 1 : 9);
    separator_options const options{.imbalance = 0.1 * static_cast<double>(r.below(5)),
                                    .restarts = static_cast<std::uint32_t>(1 + r.below(9)),
                                    .seed = r.below(1000)};
    checked(g, options);
    CHECK(vertex_separator(g.view(), options).side == vertex_separator(g.view(), options).side);
  }
}

TEST_CASE("vertex_separator: takes floating-point weights and 64-bit ids") {
  auto const g = testing::grid_adjacency(12, 10);
  std::vector<std::int64_t> const offsets(g.offsets.begin(), g.offsets.end());
  std::vector<std::int64_t> const targets(g.targets.begin(), g.targets.end());
  std::vector<double> const weights(120, 0.5);
  auto const s = vertex_separator(adjacency_view{offsets, targets, weights});
  CHECK(s.weights[2] == 5);
  CHECK(s.side == vertex_separator(g.view()).side);
}

TEST_CASE("vertex_separator: rejects invalid graphs and options") {
  auto g = testing::grid_adjacency(3, 3);
  CHECK_THROWS_AS(vertex_separator(g.view(), {.imbalance = -0.1}), detail::separator_option_error);
  CHECK_THROWS_AS(vertex_separator(g.view(), {.imbalance = std::numeric_limits<double>::quiet_NaN()}),
                  detail::separator_option_error);
  CHECK_THROWS_AS(vertex_separator(g.view(), {.restarts = 0}), detail::separator_option_error);
  g.targets[0] = 8;
  CHECK_THROWS_AS(vertex_separator(g.view()), detail::adjacency_error);
  g.targets[0] = 9;
  CHECK_THROWS_AS(vertex_separator(g.view()), detail::adjacency_error);
}

TEST_CASE("find_separator_fault: returns a node with a neighbour on the other side") {
  using enum separator_side;
  auto const g = path_of(3);
  CHECK(!find_separator_fault(g.view(), {left, separator, right}));
  CHECK(find_separator_fault(g.view(), {left, left, right}) == 1);
  CHECK(find_separator_fault(g.view(), {right, left, left}) == 1);
  CHECK(find_separator_fault(g.view(), {left, left}) == 2);
}
