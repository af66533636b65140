// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_files/cost_dag.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

cost_dag diamond() {  // 2 feeds 0 and 3, which feed 1
  return {
      .work = {1, 2, 3, 4}, .memory = {5, 6, 7, 8}, .arcs = {{2, 0, .5}, {2, 3, 1.5}, {0, 1, 2}, {3, 1, 2}}};
}

}  // namespace

TEST_CASE("order_of: returns the smallest topological order and reports a cycle") {
  CHECK(order_of(diamond()) == std::vector<std::uint32_t>{2, 0, 3, 1});
  auto d = diamond();
  d.arcs.push_back({1, 2, 1});
  try {
    order_of(d);
    FAIL("a circle has no order");
  } catch (dag_cycle_error const& e) {
    REQUIRE(e.witness.size() == 3);
    for (std::size_t i = 0; i < 3; ++i) {
      auto const from = e.witness[i], to = e.witness[(i + 1) % 3];
      CHECK(std::ranges::any_of(d.arcs, [&](auto const& a) { return a.from == from && a.to == to; }));
    }
    CHECK(std::string(e.what()).starts_with("nodes depend on each other in a cycle: #"));
  }
}

TEST_CASE("order_of: random graphs are ordered by their arcs, or a real cycle is reported") {
  testing::rng dice(1);
  for (int round = 0; round < 300; ++round) {
    auto const n = static_cast<std::uint32_t>(2 + dice.below(9));
    cost_dag d{.work = std::vector<double>(n, 1), .memory = {}, .arcs = {}};
    for (auto i = dice.below(2 * n); i > 0; --i) {
      auto const a = static_cast<std::uint32_t>(dice.below(n)), b = static_cast<std::uint32_t>(dice.below(n));
      if (a != b) d.arcs.push_back({a, b, 1});
    }
    try {
      auto const order = order_of(d);
      std::vector<std::size_t> at(n);
      for (std::size_t i = 0; i < n; ++i) at[order[i]] = i;
      for (auto const& a : d.arcs) CHECK(at[a.from] < at[a.to]);
    } catch (dag_cycle_error const& e) {
      for (std::size_t i = 0; i < e.witness.size(); ++i)
        CHECK(std::ranges::any_of(d.arcs, [&](auto const& a) {
          return a.from == e.witness[i] && a.to == e.witness[(i + 1) % e.witness.size()];
        }));
    }
  }
}

TEST_CASE("undirected: an edge costs as much as its arc") {
  auto const g = undirected(diamond());
  CHECK(!find_adjacency_fault(g.view()));
  CHECK(g.targets == std::vector<std::uint32_t>{1, 2, 0, 3, 0, 3, 1, 2});
  CHECK(g.edge_weight == std::vector<double>{2, .5, 2, 2, .5, 1.5, 2, 1.5});
  CHECK(g.node_weight == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE(
    "snapshot_of_dag: each tensor costs as much as its most expensive arc, and balance uses its limits") {
  auto d = diamond();
  d.together = {{0, 3}};
  d.device_memory = 100;
  auto const s = snapshot_of_dag(d);
  CHECK(s.position == std::vector<std::size_t>{1, 3, 0, 2});
  CHECK(s.graph.weight == std::vector<double>{3, 1, 4, 2});
  for (std::size_t v = 0; v < 4; ++v)
    CHECK(static_cast<double>(s.graph.bytes[v]) * s.options.cost_per_byte ==
          std::vector<double>{1.5, 2, 2, 0}[v]);
  CHECK(s.options.node_memory == std::vector<std::size_t>{7, 5, 8, 6});
  CHECK(s.options.together == std::vector<std::vector<std::size_t>>{{1, 2}});
  auto const cut = balance(s.graph, 2, s.options);
  CHECK(cut.of[1] == cut.of[2]);
  CHECK(cut.bottleneck == 8.5);  // costs 3 | 1 4 2, plus a transfer of 1.5
}

TEST_CASE("snapshot_of_dag: costs of any size keep their ratio") {
  for (double const unit : {1e-9, 1.0, 1e12}) {
    auto d = diamond();
    for (auto& a : d.arcs) a.cost *= unit;
    auto const s = snapshot_of_dag(d);
    auto const back = static_cast<double>(s.graph.bytes[0]) * s.options.cost_per_byte;
    CHECK(std::abs(back - 1.5 * unit) <= 1.5 * unit * 1e-3);
  }
}
