// SPDX-License-Identifier: MIT
#include "cleave/partition/units/units.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using index_type = std::uint32_t;
using cleave::testing::snapshot_builder;
using order_list = std::vector<index_type>;

}  // namespace

TEST_CASE("units_of: merges groups, sets and the cycles through them, and omits replicable nodes") {
  snapshot_builder b;
  auto const c = b.node(1);
  b.replicable();
  auto const x = b.node(1, {c}), y = b.node(1, {x}), z = b.node(1, {y});
  b.node(1, {z});
  b.node(1);
  b.together(1, 3);
  auto const g = b.build();
  std::vector<std::vector<std::size_t>> const together{{0, 4}, {4, 5}, {2, 0}, {0}, {}};
  auto const u = cleave::detail::units_of(g, {.together = together});
  CHECK(u.of == order_list{cleave::none<index_type>, 0, 0, 0, 1, 1});
  CHECK(u.size() == 2);
  CHECK(u.predecessors.item == order_list{0});
  CHECK(u.successors[0].front() == 1);
}

TEST_CASE("units_of: edges of backward nodes neither merge nor order units") {
  snapshot_builder b;
  auto const x = b.node(1), y = b.node(1, {x}), gy = b.node(1, {y});
  b.node(1, {gy, x});
  std::vector<std::vector<std::size_t>> const together{{0, 3}, {1, 2}};
  std::vector<char> const backward{0, 0, 1, 1};
  auto const u = cleave::detail::units_of(b.build(), {.together = together, .backward = backward});
  CHECK(u.of == order_list{0, 1, 1, 0});
  CHECK(u.predecessors[1].size() == 1);
  CHECK(u.predecessors[0].empty());
  CHECK(cleave::detail::units_of(b.build(), {.together = together}).size() == 1);
}

TEST_CASE("units_of: equals the transitive closure on random graphs") {
  cleave::testing::rng r(3);
  for (int i = 0; i < 300; ++i) {
    auto const g = random_graph(r, {.nodes = 1 + r.below(14), .replicable = 6, .tied = 3, .ordered = 5});
    auto const n = g.nodes();
    std::vector<std::vector<std::size_t>> together(r.below(3));
    for (auto& set : together)
      for (auto count = r.below(4); count-- > 0;) set.push_back(r.below(n));
    std::vector<char> backward(r.one_in(2) ? n : 0);
    for (auto& b : backward) b = r.one_in(3);

    // edges lead forward, groups and sets both ways
    std::vector<std::vector<char>> edge(n, std::vector<char>(n)), reach = edge;
    auto const is_backward = [&](std::size_t a) { return !backward.empty() && backward[a]; };
    cleave::detail::each_dependency(
        g, [&](index_type a, index_type b) { edge[a][b] = !is_backward(a) && !is_backward(b); });
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b) reach[a][b] = edge[a][b] || a == b || g.group[a] == g.group[b];
    for (auto const& set : together)
      for (auto const a : set)
        for (auto const b : set) reach[a][b] |= !g.replicable[a] && !g.replicable[b];
    for (std::size_t k = 0; k < n; ++k)
      for (std::size_t a = 0; a < n; ++a)
        for (std::size_t b = 0; b < n; ++b) reach[a][b] |= reach[a][k] && reach[k][b];

    auto const u = cleave::detail::units_of(g, {.together = together, .backward = backward});
    index_type units = 0;  // numbered by their first nodes
    for (std::size_t a = 0; a < n; ++a) {
      REQUIRE((u.of[a] == cleave::none<index_type>) == (g.replicable[a] != 0));
      if (g.replicable[a]) continue;
      REQUIRE(u.of[a] <= units);
      units += u.of[a] == units;
      REQUIRE(std::ranges::count(u.members[u.of[a]], a) == 1);
      for (std::size_t b = 0; b < n; ++b)
        if (!g.replicable[b]) REQUIRE((u.of[a] == u.of[b]) == (reach[a][b] && reach[b][a]));
    }
    REQUIRE(u.size() == units);
    REQUIRE(cleave::detail::is_acyclic(u.predecessors));
    std::set<std::pair<index_type, index_type>> predecessors, listed;
    for (std::size_t a = 0; a < n; ++a)
      for (std::size_t b = 0; b < n; ++b)
        if (edge[a][b] && u.of[a] != u.of[b]) predecessors.emplace(u.of[b], u.of[a]);
    for (index_type unit = 0; unit < units; ++unit)
      for (auto const need : u.predecessors[unit]) {
        REQUIRE(listed.emplace(unit, need).second);
        REQUIRE(std::ranges::count(u.successors[need], unit) == 1);
      }
    REQUIRE(listed == predecessors);
    REQUIRE(u.successors.item.size() == predecessors.size());
  }
}

TEST_CASE("units_of: a graph without nodes or with only replicable nodes has no units") {
  CHECK(cleave::detail::units_of(cleave::snapshot_arrays()).size() == 0);
  snapshot_builder b;
  b.node(1);
  b.replicable();
  auto const u = cleave::detail::units_of(b.build());
  CHECK(u.size() == 0);
  CHECK(u.of == order_list{cleave::none<index_type>});
}

TEST_CASE("rows_of: lists each item once per row and rejects an index type that is too narrow") {
  cleave::testing::rng r(6);
  for (int i = 0; i < 200; ++i) {
    std::size_t const rows = 1 + r.below(8);
    std::vector<std::pair<index_type, index_type>> pairs(r.below(20));
    for (auto& [row, item] : pairs)
      row = static_cast<index_type>(r.below(rows)), item = static_cast<index_type>(r.below(rows));
    auto const table = cleave::detail::rows_of(rows, pairs);
    REQUIRE(table.rows() == rows);
    std::vector<std::pair<index_type, index_type>> listed;
    for (index_type row = 0; row < rows; ++row)
      for (auto const item : table[row]) listed.emplace_back(row, item);
    std::set<std::pair<index_type, index_type>> const each(pairs.begin(), pairs.end());
    REQUIRE(std::ranges::equal(listed, each));
  }
  std::vector<std::pair<std::uint8_t, std::uint8_t>> const many(255, {1, 0});
  CHECK_THROWS_AS(cleave::detail::rows_of<std::uint8_t>(2, many), cleave::index_overflow);
}
