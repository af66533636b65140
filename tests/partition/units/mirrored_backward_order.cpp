// SPDX-License-Identifier: MIT
#include "cleave/partition/units/mirrored_backward_order.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cleave/partition/units/topological_orders.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::unit_order;
using cleave::testing::snapshot_builder;
using order_list = std::vector<index_type>;

order_list ranks(std::size_t n) {
  order_list rank(n);
  std::iota(rank.begin(), rank.end(), 0u);
  return rank;
}

}  // namespace

TEST_CASE("mirrored_backward_edges: backward units follow the forward units they read, in mirrored order") {
  snapshot_builder b;  // forward 0 1 2, gradients 3 (of 2) 4 (of 1) 5 (of 0)
  auto const x = b.node(1), y = b.node(1, {x}), z = b.node(1, {y});
  auto const gz = b.node(1, {z}), gy = b.node(1, {gz, y});
  b.node(1, {gy, x});
  auto const g = b.build();
  std::vector<char> const backward{0, 0, 0, 1, 1, 1};
  auto const u = cleave::detail::units_of(g, {.backward = backward});
  auto const m = cleave::detail::mirrored_backward_edges<index_type>(g, u, backward);
  auto const order = cleave::detail::ordered_units<index_type>(m.predecessors, m.successors,
                                                               unit_order::on_demand_last, ranks(6));
  CHECK(order == order_list{0, 5, 1, 4, 2, 3});
}

TEST_CASE("mirrored_backward_edges: stay acyclic and keep all given dependencies") {
  cleave::testing::rng r(4);
  for (int i = 0; i < 100; ++i) {
    auto const g = random_graph(r, {.nodes = 2 + r.below(20)});
    std::vector<char> backward(g.nodes());
    std::vector<std::vector<std::size_t>> together;
    for (std::size_t n = 1; n < g.nodes(); ++n)
      if (r.one_in(2)) {
        backward[n] = 1;
        if (r.one_in(2)) together.push_back({r.below(n), n});
      }
    auto const u = cleave::detail::units_of(g, {.together = together, .backward = backward});
    auto const m = cleave::detail::mirrored_backward_edges<index_type>(g, u, backward);
    REQUIRE(cleave::detail::is_acyclic(m.predecessors));
    for (index_type n = 0; n < u.size(); ++n)
      for (auto const need : u.predecessors[n])
        REQUIRE(std::ranges::find(m.predecessors[n], need) != m.predecessors[n].end());
  }
}

TEST_CASE("mirrored_backward_edges: reverse each edge between backward units that only such units read") {
  cleave::testing::rng r(5);
  for (int i = 0; i < 100; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(20), .replicable = 6, .ordered = 5});
    std::vector<char> backward(g.nodes());  // readers of backward nodes are backward
    cleave::detail::each_dependency(
        g, [&](index_type m, index_type n) { backward[n] |= backward[m] || r.one_in(4); });
    auto const u = cleave::detail::units_of(g, {.backward = backward});
    auto const edges = cleave::detail::mirrored_backward_edges<index_type>(g, u, backward);
    std::vector<std::vector<char>> twin(u.size(), std::vector<char>(u.size()));  // row depends on column
    cleave::detail::each_dependency(g, [&](index_type m, index_type n) {
      bool const turned = backward[m] && backward[n];
      twin[u.of[turned ? m : n]][u.of[turned ? n : m]] = 1;
    });
    for (index_type a = 0; a < u.size(); ++a)
      for (index_type b = 0; b < u.size(); ++b) {
        REQUIRE(std::ranges::count(edges.predecessors[a], b) == twin[a][b]);
        REQUIRE(std::ranges::count(edges.successors[b], a) == twin[a][b]);
      }
  }
}

TEST_CASE("mirrored_backward_edges: equal the unit graph if there are no backward nodes") {
  snapshot_builder b;
  b.node(1, {b.node(1)});
  auto const g = b.build();
  auto const u = cleave::detail::units_of(g);
  auto const edges = cleave::detail::mirrored_backward_edges<index_type>(g, u, {});
  CHECK(edges.predecessors.item == u.predecessors.item);
  CHECK(edges.successors.item == u.successors.item);
}
