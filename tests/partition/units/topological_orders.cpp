// SPDX-License-Identifier: MIT
#include "cleave/partition/units/topological_orders.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/partition/units/units.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::no_part;
using cleave::part_id;
using cleave::unit_order;
using cleave::testing::snapshot_builder;
using order_list = std::vector<index_type>;

constexpr unit_order all_orders[] = {unit_order::given,          unit_order::breadth_first,
                                     unit_order::depth_first,    unit_order::on_demand,
                                     unit_order::on_demand_last, unit_order::random};

order_list ranks(std::size_t n) {
  order_list rank(n);
  std::iota(rank.begin(), rank.end(), 0u);
  return rank;
}

order_list order_of(cleave::unit_graph<index_type> const& u, unit_order how) {
  return cleave::detail::ordered_units<index_type>(u.predecessors, u.successors, how, ranks(u.size()));
}

bool is_topological(cleave::detail::csr<index_type> const& predecessors, order_list const& order) {
  std::vector<std::size_t> place(predecessors.rows(), predecessors.rows());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (std::size_t n = 0; n < predecessors.rows(); ++n) {
    if (place[n] == predecessors.rows()) return false;
    for (auto const m : predecessors[n])
      if (place[m] >= place[n]) return false;
  }
  return order.size() == predecessors.rows();
}

/// Node 2 reads 1, node 3 reads 0, and node 4 reads 2 and 3.
cleave::snapshot_arrays crossed() {
  snapshot_builder b;
  auto const x = b.node(1), y = b.node(1), u = b.node(1, {y}), v = b.node(1, {x});
  b.node(1, {u, v});
  return b.build();
}

}  // namespace

TEST_CASE("ordered_units: every order contains each unit once, after its predecessors") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    auto const g = random_graph(r, {.nodes = r.below(40), .replicable = 6, .tied = 5, .ordered = 4});
    auto const u = cleave::detail::units_of(g);
    for (auto const how : all_orders) REQUIRE(is_topological(u.predecessors, order_of(u, how)));
  }
}

TEST_CASE("ordered_units: gives the program, queue, stack and on-demand orders of a small graph") {
  auto const u = cleave::detail::units_of(crossed());
  CHECK(order_of(u, unit_order::given) == order_list{0, 1, 2, 3, 4});
  CHECK(order_of(u, unit_order::breadth_first) == order_list{0, 1, 3, 2, 4});
  CHECK(order_of(u, unit_order::depth_first) == order_list{0, 3, 1, 2, 4});
  CHECK(order_of(u, unit_order::on_demand) == order_list{1, 2, 0, 3, 4});
  CHECK(order_of(u, unit_order::on_demand_last) == order_list{0, 3, 1, 2, 4});
}

TEST_CASE("is_only_order: holds exactly if one permutation is topological") {
  cleave::testing::rng r(3);
  std::size_t single = 0;
  for (int i = 0; i < 300; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(6), .tied = 5, .ordered = 2});
    auto const u = cleave::detail::units_of(g);
    auto order = ranks(u.size());
    std::size_t topological = 0;
    do topological += is_topological(u.predecessors, order) ? 1u : 0u;
    while (std::ranges::next_permutation(order).found);
    CHECK(cleave::detail::is_only_order<index_type>(u.predecessors, order_of(u, unit_order::random)) ==
          (topological == 1));
    single += topological == 1 ? 1u : 0u;
  }
  CHECK((single > 30 && single < 270));
}

TEST_CASE("ordered_units: ranks replace the order of the program") {
  auto const u = cleave::detail::units_of(crossed());
  CHECK(cleave::detail::ordered_units<index_type>(u.predecessors, u.successors, unit_order::given,
                                                  order_list{4, 3, 2, 1, 0}) == order_list{1, 2, 0, 3, 4});
}

TEST_CASE("ordered_units: every order puts pinned units in the order of their parts") {
  cleave::testing::rng r(2);
  int possible = 0;
  for (int i = 0; i < 300; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(20), .most_operands = 2, .reach = 8});
    auto const u = cleave::detail::units_of(g);
    auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
    std::vector<part_id> fixed(u.size(), no_part);
    for (auto& pin : fixed)
      if (r.one_in(4)) pin = part_id{static_cast<std::uint32_t>(r.below(parts))};
    auto const any = order_of(u, unit_order::breadth_first);
    auto const reach = cleave::detail::reach_of_fixed<index_type>(u.predecessors, any, fixed, parts);

    // a conflict is a pinned unit before one that is pinned to an earlier part
    std::vector<std::vector<char>> before(u.size(), std::vector<char>(u.size()));
    for (auto const n : any)
      for (auto const m : u.predecessors[n]) {
        before[m][n] = 1;
        for (index_type k = 0; k < u.size(); ++k) before[k][n] |= before[k][m];
      }
    bool conflict = false;
    for (index_type m = 0; m < u.size(); ++m)
      for (index_type n = 0; n < u.size(); ++n)
        conflict |= before[m][n] && fixed[m] != no_part && fixed[n] != no_part && fixed[m] > fixed[n];
    REQUIRE(reach.conflict.has_value() == conflict);
    if (conflict) {
      auto const [m, n] = *reach.conflict;
      REQUIRE(before[m][n]);
      REQUIRE(fixed[m] > fixed[n]);
      continue;
    }
    ++possible;
    for (auto const how : all_orders) {
      auto const order = cleave::detail::ordered_units<index_type>(u.predecessors, u.successors, how,
                                                                   ranks(u.size()), reach.window, parts);
      REQUIRE(is_topological(u.predecessors, order));
      part_id last{0};
      for (auto const n : order) {
        if (fixed[n] == no_part) continue;
        REQUIRE(fixed[n] >= last);
        last = fixed[n];
      }
    }
  }
  CHECK(possible > 50);
}
