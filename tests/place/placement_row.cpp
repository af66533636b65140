// SPDX-License-Identifier: MIT
#include "cleave/place/placement_row.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/graph/snapshot_arrays.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

/// A random graph in program order: each node reads up to three earlier values or state, and makes one value.
/// Values 0 and 1 are state.
snapshot_arrays random_arrays(splitmix& random, std::uint32_t nodes) {
  snapshot_arrays g;
  std::vector<std::vector<std::uint32_t>> users(nodes + 2);
  for (std::uint32_t v = 0; v < nodes + 2; ++v) {
    g.producer.push_back(v < 2 ? none<std::uint32_t> : v - 2);
    g.from.push_back(v < 2 ? source::state : source::node);
    g.bytes.push_back(random.below(50));
    g.portable.push_back(random.below(8) != 0);
  }
  for (std::uint32_t n = 0; n < nodes; ++n) {
    for (auto reads = random.below(4); reads-- > 0;) {
      auto const v = static_cast<std::uint32_t>(random.below(n + 2));
      g.operands.add(v);
      if (users[v].empty() || users[v].back() != n) users[v].push_back(n);
    }
    g.operands.close();
    g.weight.push_back(static_cast<double>(random.below(9)));
    g.group.push_back(n > 0 && random.below(6) == 0 ? g.group[random.below(n)] : n);
  }
  for (auto const& list : users) {
    for (auto const n : list) g.users.add(n);
    g.users.close();
  }
  return g;
}

}  // namespace

TEST_CASE("placement_row_of: sums and crossings are what counting each place anew gives") {
  testing::rng random(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    auto const nodes = static_cast<std::uint32_t>(1 + random.below(9));
    auto const g = random_arrays(random, nodes);
    auto const made = detail::row_of_arrays(g, {.backward = 2, .state_copies = 3});
    auto const& row = made.units;
    REQUIRE(row.cost.size() == made.first_node.size());
    CHECK(made.first_node.front() == 0);
    CHECK(made.first_node.back() == nodes);
    for (std::uint32_t place = 0; place <= nodes; ++place) {
      CAPTURE(place);
      double cost = 0;
      std::uint64_t saved = 0, resident = 0, crossing = 0;
      bool is_open = true;
      for (std::uint32_t n = 0; n < place; ++n) cost += g.weight[n];
      for (std::uint32_t v = 0; v < g.values(); ++v) {
        auto const reads_before = std::ranges::count_if(g.users[v], [&](auto n) { return n < place; });
        auto const reads_behind = std::ranges::count_if(g.users[v], [&](auto n) { return n >= place; });
        if (g.from[v] == source::state) {
          resident += reads_before > 0 ? 3 * g.bytes[v] : 0;
        } else if (g.producer[v] < place && reads_behind > 0) {
          crossing += g.bytes[v];
          is_open = is_open && g.portable[v] != 0;
        }
      }
      for (std::uint32_t v = 0; v < g.values(); ++v)
        if (g.from[v] != source::state && std::ranges::any_of(g.users[v], [&](auto n) { return n < place; }))
          saved += g.bytes[v];
      for (std::uint32_t n = 0; n < place; ++n)
        for (auto m = place; m < nodes; ++m) is_open = is_open && g.group[n] != g.group[m];
      auto const at = std::ranges::find(made.first_node, place);
      bool const is_end = place == 0 || place == nodes;
      REQUIRE((at != made.first_node.end()) == (is_open || is_end));
      if (at == made.first_node.end()) continue;
      auto const i = static_cast<std::size_t>(at - made.first_node.begin());
      CHECK(row.cost[i].forward == cost);
      CHECK(row.cost[i].backward == 2 * cost);
      CHECK(row.resident[i] == resident);
      CHECK(row.bytes[i].saved == saved);
      if (!is_end) CHECK(row.crossing[i] == edge_bytes{crossing, crossing});
    }
  }
}

TEST_CASE("placement_row_of: costs of a kind are sums of their own, and bad options are refused") {
  testing::rng random(6);
  auto const g = random_arrays(random, 4);
  auto const made = detail::row_of_arrays(g, {.kind = {"a", "", "a", "b"}});
  REQUIRE(made.kinds.size() == 2);
  CHECK(made.kinds[0].kind == "a");
  CHECK(made.kinds[0].cost.back().forward == g.weight[0] + g.weight[2]);
  CHECK(made.kinds[1].cost.back().forward == g.weight[3]);
  CHECK(made.units.cost.back().forward == g.weight[1]);
  CHECK_THROWS_WITH(detail::row_of_arrays(g, {.kind = {"a"}}),
                    "place: `kind` has 1 entries, but the graph has 4 nodes");
  CHECK_THROWS_WITH(detail::row_of_arrays(g, {.backward = -1}),
                    "place: `backward` must be a number from 0 to 1e6");
  auto bad = g;
  bad.weight[2] = -1;
  CHECK_THROWS_WITH(detail::row_of_arrays(bad, {}),
                    "place: the weight of node #2 is -1.000000: it must be a number from 0 to 1e100");
}
