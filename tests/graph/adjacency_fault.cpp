// SPDX-License-Identifier: MIT
#include "cleave/graph/adjacency.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

using enum adjacency_violation;

adjacency<std::uint32_t> path_of_three() {
  return {.offsets = {0, 1, 3, 4}, .targets = {1, 0, 2, 1}, .node_weight = {}, .edge_weight = {}};
}

template <class Adjacency>
std::string complaint(Adjacency const& g) {
  return cleave::testing::error_text([&] { check_adjacency(g.view()); });
}

/// Random edges with parallel edges and loops, each listed at both ends.
struct random_rows {
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> row;

  random_rows(cleave::testing::rng& dice, std::size_t nodes, std::size_t edges) : row(nodes) {
    for (std::size_t e = 0; e < edges; ++e) {
      auto const a = dice.below(nodes), b = dice.below(nodes);
      auto const w = static_cast<std::int64_t>(dice.below(3));
      row[a].emplace_back(static_cast<std::uint32_t>(b), w);
      if (a != b || dice.one_in(2)) row[b].emplace_back(static_cast<std::uint32_t>(a), w);
    }
    for (auto& r : row) dice.shuffle(r);
  }
  adjacency<std::uint32_t> graph() const {
    adjacency<std::uint32_t> g;
    for (auto const& r : row) {
      for (auto const& [to, w] : r) g.targets.push_back(to), g.edge_weight.push_back(w);
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
    return g;
  }
  /// Number of times that the row of `a` lists `b` with weight `w`.
  std::size_t listed(std::size_t a, std::size_t b, std::int64_t w) const {
    std::size_t times = 0;
    for (auto const& [to, weight] : row[a]) times += to == b && weight == w;
    return times;
  }
};

}  // namespace

TEST_CASE("find_adjacency_fault: accepts valid arrays of any index and weight type") {
  CHECK(find_adjacency_fault(path_of_three().view()) == std::nullopt);
  CHECK(find_adjacency_fault(adjacency_view<int>{}) == std::nullopt);
  CHECK(find_adjacency_fault(adjacency<std::uint8_t, float, unsigned>{}.view()) == std::nullopt);
  adjacency<std::int64_t, double, float> const loops{.offsets = {0, 3, 5},
                                                     .targets = {0, 1, 1, 0, 0},
                                                     .node_weight = {0.5, 0},
                                                     .edge_weight = {7, 1, 2, 2, 1}};
  CHECK(find_adjacency_fault(loops.view()) == std::nullopt);
}

TEST_CASE("find_adjacency_fault: locates each kind of violation, and check_adjacency describes it") {
  auto g = path_of_three();
  g.node_weight = {1, 2};
  CHECK(find_adjacency_fault(g.view())->what == wrong_length);
  CHECK(complaint(g) ==
        "graph: there are 3 nodes and 2 node weights, 4 arcs and 0 edge weights: give one weight for each, "
        "or an empty array");
  g.node_weight = {1, -2, 3};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{bad_node_weight, 1, 0});
  CHECK(complaint(g) == "graph: node #1 weighs -2: weights must be finite and not negative");
  g.node_weight.clear();
  g.edge_weight = {1, 1, -5, -5};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{bad_edge_weight, 1, 2});
  CHECK(complaint(g) ==
        "graph: the edge from node #1 to node #2 weighs -5: weights must be finite and not negative");

  g = path_of_three();
  g.offsets = {0, 3, 1, 4};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{offsets_out_of_range, 2, 0});
  CHECK(complaint(g) ==
        "graph: offsets[2] is 1: offsets must begin at 0, never decrease, and end at the number of arcs; "
        "there are 4 arcs");
  g.offsets = {1, 1, 3, 4};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{offsets_out_of_range, 0, 0});
  g.offsets = {0, 1, 3, 3};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{offsets_out_of_range, 3, 0});
  adjacency<int> const negative{.offsets = {0, -1, 0}, .targets = {}, .node_weight = {}, .edge_weight = {}};
  CHECK(find_adjacency_fault(negative.view()) == adjacency_fault{offsets_out_of_range, 1, 0});
  adjacency<int> const headless{.offsets = {}, .targets = {0}, .node_weight = {}, .edge_weight = {}};
  CHECK(complaint(headless) == "graph: there are 1 arcs, but offsets is empty");

  g = path_of_three();
  g.targets[2] = 3;
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{no_such_node, 1, 2});
  CHECK(complaint(g) == "graph: node #1 lists the neighbour 3, but the graph has only 3 nodes");

  g = path_of_three();
  g.targets[3] = 0;
  CHECK(find_adjacency_fault(g.view())->what == one_sided_edge);
  g = path_of_three();
  g.edge_weight = {1, 1, 2, 3};
  CHECK(find_adjacency_fault(g.view()) == adjacency_fault{one_sided_edge, 1, 2});
  CHECK(complaint(g) ==
        "graph: the edge from node #1 to node #2, of weight 2, is listed a different number of times at its "
        "other end: list each edge at both ends with the same weight");
}

TEST_CASE(
    "find_adjacency_fault: rejects weights that are NaN, infinite or negative, and sums beyond 63 bits") {
  auto const nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  for (double const bad : {nan, inf, -1.0}) {
    adjacency<std::uint32_t, double> const g{
        .offsets = {0, 0, 0}, .targets = {}, .node_weight = {1, bad}, .edge_weight = {}};
    CHECK(find_adjacency_fault(g.view()) == adjacency_fault{bad_node_weight, 1, 0});
  }
  auto const most = std::numeric_limits<std::int64_t>::max();
  adjacency<std::uint32_t> heavy{
      .offsets = {0, 0, 0}, .targets = {}, .node_weight = {most, 0}, .edge_weight = {}};
  CHECK(find_adjacency_fault(heavy.view()) == std::nullopt);
  heavy.node_weight[1] = 1;
  CHECK(find_adjacency_fault(heavy.view()) == adjacency_fault{nodes_too_heavy, 1, 0});
  CHECK(complaint(heavy).find("the sum of the node weights exceeds 2^63 - 1 at node #1") !=
        std::string::npos);

  auto g = path_of_three();
  g.edge_weight = {most / 2, most / 2, 1, 1};
  CHECK(find_adjacency_fault(g.view())->what == edges_too_heavy);
  adjacency<std::uint32_t, std::uint64_t> const unsigned_weights{
      .offsets = {0, 0}, .targets = {}, .node_weight = {std::uint64_t{1} << 63}, .edge_weight = {}};
  CHECK(find_adjacency_fault(unsigned_weights.view())->what == nodes_too_heavy);
  adjacency<std::uint32_t, double> const huge{
      .offsets = {0, 0, 0}, .targets = {}, .node_weight = {1e308, 1e308}, .edge_weight = {}};
  CHECK(find_adjacency_fault(huge.view()) == adjacency_fault{nodes_too_heavy, 1, 0});
}

TEST_CASE("find_adjacency_fault: finds a one-sided edge exactly if two rows disagree, on random graphs") {
  cleave::testing::rng dice(1);
  int broken = 0;
  for (int round = 0; round < 400; ++round) {
    auto const nodes = 1 + dice.below(8);
    random_rows rows(dice, nodes, dice.below(20));
    REQUIRE(find_adjacency_fault(rows.graph().view()) == std::nullopt);
    auto& victim = rows.row[dice.below(nodes)];
    if (victim.empty()) continue;
    auto& [to, weight] = victim[dice.below(victim.size())];
    (dice.one_in(2) ? to = static_cast<std::uint32_t>(dice.below(nodes)), 0 : (weight += 1, 0));

    bool even = true;
    for (std::size_t a = 0; a < nodes; ++a)
      for (auto const& [b, w] : rows.row[a]) even &= a == b || rows.listed(a, b, w) == rows.listed(b, a, w);
    auto const g = rows.graph();
    auto const fault = find_adjacency_fault(g.view());
    REQUIRE(fault.has_value() == !even);
    if (!fault) continue;
    ++broken;
    CHECK(fault->what == one_sided_edge);
    REQUIRE(fault->arc >= g.offsets[fault->node]);
    REQUIRE(fault->arc < g.offsets[fault->node + 1]);
    auto const other = g.targets[fault->arc];
    auto const w = g.edge_weight[fault->arc];
    CHECK(rows.listed(fault->node, other, w) > rows.listed(other, fault->node, w));
  }
  CHECK(broken > 100);
}
