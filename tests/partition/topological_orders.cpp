// SPDX-License-Identifier: MIT
#include "cleave/partition/topological_orders.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "cleave/partition/mirrored.hpp"
#include "support/dense_builder.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/small_stack.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::no_part;
using cleave::part_id;
using cleave::unit_order;
using cleave::testing::dense_builder;
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
  return cleave::ordered_units<index_type>(u.needs, u.needed_by, how, ranks(u.size()));
}

bool is_topological(cleave::csr<index_type> const& needs, order_list const& order) {
  std::vector<std::size_t> place(needs.rows(), needs.rows());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
  for (std::size_t n = 0; n < needs.rows(); ++n) {
    if (place[n] == needs.rows()) return false;
    for (auto const m : needs[n])
      if (place[m] >= place[n]) return false;
  }
  return order.size() == needs.rows();
}

/// 0 and 1 are free; 2 reads 1 and 3 reads 0; 4 reads 2 and 3.
cleave::dense crossed() {
  dense_builder b;
  auto const x = b.node(1), y = b.node(1), u = b.node(1, {y}), v = b.node(1, {x});
  b.node(1, {u, v});
  return b.build();
}

}  // namespace

TEST_CASE("orders: each puts a unit behind those it needs, and has each once") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    auto const g = random_graph(r, {.nodes = r.below(40), .replicable = 6, .tied = 5, .ordered = 4});
    auto const u = cleave::units_of(g);
    for (auto const how : all_orders) REQUIRE(is_topological(u.needs, order_of(u, how)));
  }
}

TEST_CASE("orders: the program's, queue, stack, and by demand from either end") {
  auto const u = cleave::units_of(crossed());
  CHECK(order_of(u, unit_order::given) == order_list{0, 1, 2, 3, 4});
  CHECK(order_of(u, unit_order::breadth_first) == order_list{0, 1, 3, 2, 4});
  CHECK(order_of(u, unit_order::depth_first) == order_list{0, 3, 1, 2, 4});
  CHECK(order_of(u, unit_order::on_demand) == order_list{1, 2, 0, 3, 4});
  CHECK(order_of(u, unit_order::on_demand_last) == order_list{0, 3, 1, 2, 4});
}

TEST_CASE("orders: ranks stand in for the program's order") {
  auto const u = cleave::units_of(crossed());
  CHECK(cleave::ordered_units<index_type>(u.needs, u.needed_by, unit_order::given,
                                          order_list{4, 3, 2, 1, 0}) == order_list{1, 2, 0, 3, 4});
}

TEST_CASE("orders: pinned units come in the order of their parts, whatever is tried") {
  cleave::testing::rng r(2);
  int possible = 0;
  for (int i = 0; i < 300; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(20), .most_operands = 2, .reach = 8});
    auto const u = cleave::units_of(g);
    auto const parts = static_cast<std::uint32_t>(1 + r.below(4));
    std::vector<part_id> pinned(u.size(), no_part);
    for (auto& pin : pinned)
      if (r.one_in(4)) pin = part_id{static_cast<std::uint32_t>(r.below(parts))};
    auto const any = order_of(u, unit_order::breadth_first);
    auto const reach = cleave::reach_of_pins<index_type>(u.needs, any, pinned, parts);

    // a conflict is a pinned unit before one that is pinned to an earlier part
    std::vector<std::vector<char>> before(u.size(), std::vector<char>(u.size()));
    for (auto const n : any)
      for (auto const m : u.needs[n]) {
        before[m][n] = 1;
        for (index_type k = 0; k < u.size(); ++k) before[k][n] |= before[k][m];
      }
    bool conflict = false;
    for (index_type m = 0; m < u.size(); ++m)
      for (index_type n = 0; n < u.size(); ++n)
        conflict |= before[m][n] && pinned[m] != no_part && pinned[n] != no_part && pinned[m] > pinned[n];
    REQUIRE(reach.conflict.has_value() == conflict);
    if (conflict) {
      auto const [m, n] = *reach.conflict;
      REQUIRE(before[m][n]);
      REQUIRE(pinned[m] > pinned[n]);
      continue;
    }
    ++possible;
    for (auto const how : all_orders) {
      auto const order =
          cleave::ordered_units<index_type>(u.needs, u.needed_by, how, ranks(u.size()), reach.window, parts);
      REQUIRE(is_topological(u.needs, order));
      part_id last{0};
      for (auto const n : order) {
        if (pinned[n] == no_part) continue;
        REQUIRE(pinned[n] >= last);
        last = pinned[n];
      }
    }
  }
  CHECK(possible > 50);
}

TEST_CASE("units: groups, sets and cycles through them are one; replicable nodes are none") {
  dense_builder b;
  auto const c = b.node(1);
  b.replicable();
  auto const x = b.node(1, {c}), y = b.node(1, {x}), z = b.node(1, {y});
  b.node(1, {z});
  b.node(1);
  b.together(1, 3);
  auto const g = b.build();
  std::vector<std::vector<std::size_t>> const together{{0, 4}, {4, 5}, {2, 0}, {0}, {}};
  auto const u = cleave::units_of(g, {.together = together});
  CHECK(u.of == order_list{cleave::none<index_type>, 0, 0, 0, 1, 1});
  CHECK(u.size() == 2);
  CHECK(u.needs.item == order_list{0});
  CHECK(u.needed_by[0].front() == 1);
}

TEST_CASE("units: backward edges tie nothing and order nothing") {
  dense_builder b;
  auto const x = b.node(1), y = b.node(1, {x}), gy = b.node(1, {y});
  b.node(1, {gy, x});
  std::vector<std::vector<std::size_t>> const together{{0, 3}, {1, 2}};
  std::vector<char> const backward{0, 0, 1, 1};
  auto const u = cleave::units_of(b.build(), {.together = together, .backward = backward});
  CHECK(u.of == order_list{0, 1, 1, 0});
  CHECK(u.needs[1].size() == 1);
  CHECK(u.needs[0].empty());
  CHECK(cleave::units_of(b.build(), {.together = together}).size() == 1);
}

TEST_CASE("units: agree with merging by hand on random graphs") {
  cleave::testing::rng r(3);
  for (int i = 0; i < 200; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(14), .replicable = 6, .tied = 3, .ordered = 5});
    auto const n = g.nodes();
    std::vector<std::vector<char>> reach(n,
                                         std::vector<char>(n));  // along edges forward, in groups both ways
    cleave::each_need(g, [&](index_type a, index_type b) { reach[a][b] = 1; });
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) reach[a][b] |= a == b || g.group[a] == g.group[b];
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) reach[a][b] |= reach[a][k] && reach[k][b];
    auto const u = cleave::units_of(g);
    for (std::size_t a = 0; a < n; ++a) {
      REQUIRE((u.of[a] == cleave::none<index_type>) == (g.replicable[a] != 0));
      for (std::size_t b = 0; b < n; ++b)
        if (!g.replicable[a] && !g.replicable[b])
          REQUIRE((u.of[a] == u.of[b]) == (reach[a][b] && reach[b][a]));
    }
    REQUIRE(cleave::is_acyclic(u.needs));
  }
}

TEST_CASE("mirrored: free backward units stand behind what they read and mirror each other") {
  dense_builder b;  // forward 0 1 2, gradients 3 (of 2) 4 (of 1) 5 (of 0)
  auto const x = b.node(1), y = b.node(1, {x}), z = b.node(1, {y});
  auto const gz = b.node(1, {z}), gy = b.node(1, {gz, y});
  b.node(1, {gy, x});
  auto const g = b.build();
  std::vector<char> const backward{0, 0, 0, 1, 1, 1};
  auto const u = cleave::units_of(g, {.backward = backward});
  auto const m = cleave::mirrored_edges<index_type>(g, u, backward);
  auto const order =
      cleave::ordered_units<index_type>(m.needs, m.needed_by, unit_order::on_demand_last, ranks(6));
  CHECK(order == order_list{0, 5, 1, 4, 2, 3});
}

TEST_CASE("mirrored: what contradicts a rule is left out") {
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
    auto const u = cleave::units_of(g, {.together = together, .backward = backward});
    auto const m = cleave::mirrored_edges<index_type>(g, u, backward);
    REQUIRE(cleave::is_acyclic(m.needs));
    for (index_type n = 0; n < u.size(); ++n)
      for (auto const need : u.needs[n]) REQUIRE(std::ranges::find(m.needs[n], need) != m.needs[n].end());
  }
}

TEST_CASE("components: a ring of a million rows is one, without a deep stack") {
  cleave::csr<index_type> ring;
  index_type const n = 1'000'000;
  for (index_type i = 0; i < n; ++i, ring.close()) ring.add((i + 1) % n);
  cleave::testing::on_small_stack([&] {
    auto const component = cleave::components_of(ring);
    CHECK(component.size() == n);
    CHECK(std::ranges::count(component, 0u) == n);
  });
}

TEST_CASE("rank_set: gives up the smallest, whatever was put in") {
  cleave::testing::rng r(5);
  for (std::size_t const bound :
       {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65}, std::size_t{5000}}) {
    cleave::rank_set set(bound);
    std::vector<char> in(bound);
    for (int step = 0; step < 2000; ++step) {
      CHECK(set.empty() == (std::ranges::count(in, 1) == 0));
      if (set.empty() || r.one_in(2)) {
        auto const x = r.below(bound);
        set.insert(x);
        in[x] = 1;
      } else {
        auto const least = static_cast<std::size_t>(std::ranges::find(in, 1) - in.begin());
        REQUIRE(set.take_least() == least);
        in[least] = 0;
      }
    }
  }
}
