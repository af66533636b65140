// SPDX-License-Identifier: MIT
#include "cleave/graph/adjacency.hpp"

#include <doctest/doctest.h>

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <vector>

using namespace cleave;

TEST_CASE("adjacency_view: reads rows in place, and missing weights are 1") {
  adjacency<std::uint32_t, int, float> path{
      .offsets = {0, 1, 3, 4}, .targets = {1, 0, 2, 1}, .node_weight = {}, .edge_weight = {}};
  auto view = path.view();
  CHECK(view.nodes() == 3);
  CHECK(view.directed_edges() == 4);
  CHECK(std::vector(view.neighbours(1).begin(), view.neighbours(1).end()) ==
        std::vector<std::uint32_t>{0, 2});
  CHECK(view.weight(2) == 1);
  CHECK(view.weight_of_edge(3) == 1.0f);
  path.node_weight = {3, 4, 5};
  path.edge_weight = {0.5f, 0.5f, 2, 2};
  view = path.view();
  CHECK(view.weight(2) == 5);
  CHECK(view.weight_of_edge(1) == 0.5f);
  CHECK(view.targets.data() == path.targets.data());
}

TEST_CASE("adjacency_view: empty arrays have no nodes") {
  CHECK(adjacency_view<int>{}.nodes() == 0);
  CHECK(adjacency<int>{}.view().nodes() == 0);
}

TEST_CASE("adjacency_view: deduces its index, weight and offset types from the arrays") {
  std::vector<std::int64_t> const offsets{0, 1, 3, 4};
  std::vector<std::int32_t> targets{1, 0, 2, 1};
  std::vector<float> const node_weight{3, 4, 5};
  std::array<double, 4> const edge_weight{1, 1, 2, 2};

  adjacency_view const plain{offsets, targets};
  static_assert(std::same_as<decltype(plain),
                             adjacency_view<std::int32_t, std::int64_t, std::int64_t, std::int64_t> const>);
  CHECK(plain.nodes() == 3);
  CHECK(plain.neighbours(1).data() == targets.data() + 1);
  CHECK(plain.weight_of_edge(2) == 1);

  adjacency_view const of_nodes{std::span(offsets), std::span(targets), node_weight};
  static_assert(
      std::same_as<decltype(of_nodes), adjacency_view<std::int32_t, float, float, std::int64_t> const>);
  CHECK(of_nodes.weight(2) == 5);

  adjacency_view const of_both{offsets, targets, node_weight, edge_weight};
  static_assert(
      std::same_as<decltype(of_both), adjacency_view<std::int32_t, float, double, std::int64_t> const>);
  CHECK(of_both.weight_of_edge(2) == 2);

  adjacency_view const of_edges{offsets, targets, {}, edge_weight};
  static_assert(std::same_as<decltype(of_edges),
                             adjacency_view<std::int32_t, std::int64_t, double, std::int64_t> const>);
  CHECK(of_edges.weight(2) == 1);

  std::uint16_t const few[] = {0, 0};
  std::array<std::uint16_t, 0> const none{};
  adjacency_view const alone{few, none};
  static_assert(std::same_as<decltype(alone), adjacency_view<std::uint16_t> const>);

  adjacency_view<std::int32_t, std::int64_t, double, std::int64_t> const named{
      .offsets = offsets, .targets = targets, .edge_weight = edge_weight};
  CHECK(named.weight_of_edge(3) == 2);
}
