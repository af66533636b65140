// SPDX-License-Identifier: MIT
#include "cleave/partition/model/validity.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

namespace {

using cleave::no_part;
using cleave::part_id;

constexpr part_id p0{0}, p1{1}, p2{2};

}  // namespace

TEST_CASE("part_graph_of: lists dependents by their first dependency, like a check of all pairs") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 300; ++i) {
    auto g = random_graph(r, {.nodes = r.below(14), .states = 2, .replicable = 5, .ordered = 4});
    for (std::size_t v = 0; v < g.values(); ++v, g.companions.close())
      if (r.one_in(4)) g.companions.add(static_cast<std::uint32_t>(r.below(g.values())));
    auto const parts = static_cast<std::uint32_t>(1 + r.below(5));
    auto p = random_partition(r, g.nodes(), parts);
    for (auto& part : p.of)
      if (r.one_in(6)) part = no_part;

    /// The first node of part `to` that depends on a node of part `from`, or the number of nodes.
    auto const first_need = [&](part_id from, part_id to) {
      std::size_t n = 0;
      for (bool met = false; n < g.nodes(); ++n) {
        if (p.of[n] != to || g.replicable[n]) continue;
        cleave::detail::each_predecessor(g, p, n, [&](std::size_t m) { met |= p.of[m] == from; });
        if (met) break;
      }
      return n;
    };
    auto const made = cleave::detail::part_graph_of(g, p);
    REQUIRE(made.dependents.rows() == parts);
    REQUIRE(made.first_node.size() == parts);
    for (std::uint32_t from = 0; from < parts; ++from) {
      auto const first = std::ranges::find(p.of, part_id{from}) - p.of.begin();
      REQUIRE(made.first_node[from] == static_cast<std::size_t>(first));
      std::vector<std::uint32_t> twin;
      for (std::uint32_t to = 0; to < parts; ++to)
        if (to != from && first_need(part_id{from}, part_id{to}) < g.nodes()) twin.push_back(to);
      std::ranges::sort(twin, {}, [&](auto to) { return first_need(part_id{from}, part_id{to}); });
      REQUIRE(std::ranges::equal(made.dependents[from], twin));
    }
  }
}

TEST_CASE("part_graph_of: companions count only if the value crosses parts") {
  cleave::testing::snapshot_builder b;
  auto const size = b.node(1), x = b.node(1);
  b.node(1, {x});
  auto g = b.build();
  g.companions.close();
  g.companions.add(size);
  g.companions.close();
  g.companions.close();
  CHECK(cleave::detail::part_graph_of(g, {{p0, p1, p1}, 2}).dependents.item.empty());
  CHECK(cleave::detail::part_graph_of(g, {{p0, p1, p2}, 3}).dependents.item ==
        std::vector<std::uint32_t>{2, 2});
}

TEST_CASE("part_graph_of: an empty part has no first node, and no parts give no rows") {
  cleave::testing::snapshot_builder b;
  b.node(1);
  auto const made = cleave::detail::part_graph_of(b.build(), {{p1}, 3});
  CHECK(made.first_node == std::vector<std::size_t>{1, 0, 1});
  CHECK(made.dependents.item.empty());
  CHECK(cleave::detail::part_graph_of(cleave::snapshot_arrays(), {}).dependents.rows() == 0);
}
