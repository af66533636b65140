// SPDX-License-Identifier: MIT
#include "cleave/graph/neighbours.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"
#include "support/undirected_archetype.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

/// Cities by name, and roads with lengths. Tests can make each part invalid.
struct road_map {
  std::vector<std::string> cities;
  std::map<std::string, std::vector<std::string>> roads;
  std::map<std::string, std::vector<float>> lengths;
  std::map<std::string, int> people;

  std::vector<std::string> const& nodes() const { return cities; }
  std::vector<std::string> neighbours(std::string const& c) const {
    auto const at = roads.find(c);
    return at == roads.end() ? std::vector<std::string>() : at->second;
  }
  std::vector<float> edge_weights(std::string const& c) const {
    auto const at = lengths.find(c);
    return at == lengths.end() ? std::vector<float>(neighbours(c).size(), 1) : at->second;
  }
  int weight(std::string const& c) const { return people.contains(c) ? people.at(c) : 1; }
  std::string const& name(std::string const& c) const { return c; }
};
static_assert(node_weighted_graph<road_map> && edge_weighted_graph<road_map> &&
              named_undirected_graph<road_map>);

road_map three_cities() {
  return {.cities = {"Ulm", "Bonn", "Kiel"},
          .roads = {{"Ulm", {"Bonn"}}, {"Bonn", {"Ulm", "Kiel"}}, {"Kiel", {"Bonn"}}},
          .lengths = {{"Ulm", {2.5f}}, {"Bonn", {2.5f, 4}}, {"Kiel", {4}}},
          .people = {{"Ulm", 10}}};
}

template <class Graph>
std::string complaint(Graph const& g) {
  return cleave::testing::error_text([&] { neighbours_of(g); });
}

}  // namespace

TEST_CASE("neighbours_of: converts handles to positions and keeps the types of weights") {
  auto const s = neighbours_of(three_cities());
  static_assert(std::is_same_v<decltype(s.node_weight), std::vector<int>>);
  static_assert(std::is_same_v<decltype(s.edge_weight), std::vector<float>>);
  CHECK(s.offsets == std::vector<std::uint32_t>{0, 1, 3, 4});
  CHECK(s.targets == std::vector<std::uint32_t>{1, 0, 2, 1});
  CHECK(s.node_weight == std::vector<int>{10, 1, 1});
  CHECK(s.edge_weight == std::vector<float>{2.5f, 2.5f, 4, 4});
  CHECK(s.node[2] == "Kiel");
  CHECK(s.node.find("Bonn") == 1);
}

TEST_CASE_TEMPLATE("neighbours_of: requires no more members than the concept that it reads", Graph,
                   archetype::undirected, archetype::undirected_weighted, archetype::undirected_edges,
                   archetype::undirected_named) {
  Graph const g;
  CHECK_FALSE(find_neighbour_fault(g));
  auto const s = neighbours_of<std::uint16_t>(g);
  CHECK(s.view().nodes() == 2);
  CHECK(s.targets == std::vector<std::uint16_t>{1, 0});
  CHECK(s.node_weight.size() == (node_weighted_graph<Graph> ? 2 : 0));
  CHECK(s.edge_weight.size() == (edge_weighted_graph<Graph> ? 2 : 0));
}

TEST_CASE("find_neighbour_fault: locates each violation, and the message uses the user's names") {
  using enum neighbour_violation;
  auto g = three_cities();
  CHECK_FALSE(find_neighbour_fault(g));
  g.cities.push_back("Ulm");
  CHECK(find_neighbour_fault(g) == neighbour_fault<std::string>{node_twice, "Ulm", "Ulm", 3});
  CHECK(complaint(g) == "adapter: node Ulm (#3) is listed twice: nodes() must list each node once");

  g = three_cities();
  g.roads["Kiel"] = {"Oslo"};
  CHECK(find_neighbour_fault(g) == neighbour_fault<std::string>{unlisted, "Kiel", "Oslo", 2});
  CHECK(complaint(g) == "adapter: node Kiel (#2) has a neighbour that nodes() does not list");

  for (auto const& weights : {std::vector<float>{2.5f}, std::vector<float>{2.5f, 4, 4}}) {
    g = three_cities();
    g.lengths["Bonn"] = weights;
    CHECK(find_neighbour_fault(g) == neighbour_fault<std::string>{uneven_weights, "Bonn", "Bonn", 1});
  }
  CHECK(complaint(g).find("has different numbers of neighbours and edge weights") != std::string::npos);

  g = three_cities();
  g.people["Kiel"] = -1;
  CHECK(find_neighbour_fault(g) == neighbour_fault<std::string>{bad_node_weight, "Kiel", "Kiel", 2});
  CHECK(complaint(g) == "adapter: node Kiel (#2) weighs -1: weights must be finite and not negative");
  g = three_cities();
  g.lengths["Bonn"][1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(find_neighbour_fault(g)->what == bad_edge_weight);
  CHECK(complaint(g) ==
        "adapter: node Bonn (#1) has an edge to node Kiel (#2) whose weight is negative or not a number");

  g = three_cities();
  g.roads["Kiel"].clear(), g.lengths["Kiel"].clear();
  CHECK(find_neighbour_fault(g) == neighbour_fault<std::string>{one_sided_edge, "Bonn", "Kiel", 1});
  CHECK(complaint(g) ==
        "adapter: node Bonn (#1) has an edge to node Kiel (#2), which lists it a different number of times: "
        "list each edge at both ends with the same weight");
  g = three_cities();
  g.lengths["Kiel"][0] = 5;
  CHECK(find_neighbour_fault(g)->what == one_sided_edge);
}

namespace {

/// A graph of n nodes identified by pointers, without weights but with loops and parallel edges.
struct pointers {
  std::vector<int> place;
  std::vector<std::vector<int const*>> row;

  auto nodes() const {
    std::vector<int const*> all;
    for (auto const& p : place) all.push_back(&p);
    return all;
  }
  std::vector<int const*> const& neighbours(int const* n) const {
    return row[static_cast<std::size_t>(n - place.data())];
  }
};

struct heavy {
  std::vector<int> nodes() const { return {0, 1}; }
  std::vector<int> neighbours(int) const { return {}; }
  std::int64_t weight(int) const { return std::int64_t{1} << 62; }
};

}  // namespace

TEST_CASE("neighbours_of: reads random graphs of pointers unchanged, without loops") {
  cleave::testing::rng dice(2);
  for (int round = 0; round < 50; ++round) {
    auto const n = 1 + dice.below(30);
    pointers g{std::vector<int>(n), std::vector<std::vector<int const*>>(n)};
    std::vector<std::vector<std::uint32_t>> expected(n);
    for (auto edges = dice.below(60); edges > 0; --edges) {
      auto const a = dice.below(n), b = dice.below(n);
      g.row[a].push_back(&g.place[b]);
      if (a == b) continue;
      g.row[b].push_back(&g.place[a]);
      expected[a].push_back(static_cast<std::uint32_t>(b));
      expected[b].push_back(static_cast<std::uint32_t>(a));
    }
    auto const s = neighbours_of(g);
    REQUIRE(s.view().nodes() == n);
    for (std::size_t i = 0; i < n; ++i) {
      auto const row = s.view().neighbours(i);
      CHECK(std::vector(row.begin(), row.end()) == expected[i]);
      CHECK(s.node[static_cast<std::uint32_t>(i)] == &g.place[i]);
    }
  }
}

TEST_CASE("neighbours_of: rejects weight sums beyond 63 bits and index types that are too narrow") {
  CHECK(find_neighbour_fault(heavy{})->what == neighbour_violation::too_heavy);
  CHECK(complaint(heavy{}) ==
        "adapter: node #1 raises the sum of the weights above 2^63 - 1: use a larger unit");
  pointers const many{std::vector<int>(300), std::vector<std::vector<int const*>>(300)};
  CHECK_THROWS_AS(neighbours_of<std::uint8_t>(many), index_overflow);
  CHECK(neighbours_of<std::uint16_t>(many).view().nodes() == 300);
}
