// SPDX-License-Identifier: MIT
#include "cleave/adapt/bgl/adjacency.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/adjacency_matrix.hpp>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <boost/graph/grid_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/graph/adjacency.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

struct town {
  int people = 0;
};
struct road {
  float length = 0;
};
struct edge_said {
  std::size_t a, b;
  float length;
};

/// The sorted rows of an adjacency, with weights.
template <class Adjacency>
std::vector<std::vector<std::pair<std::size_t, float>>> rows_of_graph(Adjacency const& g) {
  std::vector<std::vector<std::pair<std::size_t, float>>> rows(g.view().nodes());
  std::size_t arc = 0;
  for (std::size_t n = 0; n < rows.size(); ++n) {
    for (auto const to : g.view().neighbours(n))
      rows[n].emplace_back(to, static_cast<float>(g.view().weight_of_edge(arc++)));
    std::ranges::sort(rows[n]);
  }
  return rows;
}

/// The expected rows, computed from the edges alone.
std::vector<std::vector<std::pair<std::size_t, float>>> rows_of_edges(std::size_t nodes,
                                                                      std::vector<edge_said> const& edges) {
  std::vector<std::vector<std::pair<std::size_t, float>>> rows(nodes);
  for (auto const& e : edges)
    if (e.a != e.b) rows[e.a].emplace_back(e.b, e.length), rows[e.b].emplace_back(e.a, e.length);
  for (auto& row : rows) std::ranges::sort(row);
  return rows;
}

template <class Graph>
Graph listed(std::size_t nodes, std::vector<edge_said> const& edges) {
  Graph g;
  std::vector<typename boost::graph_traits<Graph>::vertex_descriptor> vertex;
  for (std::size_t n = 0; n < nodes; ++n) vertex.push_back(add_vertex(town{static_cast<int>(n) + 3}, g));
  for (auto const& e : edges) add_edge(vertex[e.a], vertex[e.b], road{e.length}, g);
  return g;
}

using boost::bidirectionalS, boost::directedS, boost::undirectedS;
using boost::listS, boost::setS, boost::vecS;
template <class Out, class Vertices, class Direction>
using list = boost::adjacency_list<Out, Vertices, Direction, town, road>;

}  // namespace

TEST_CASE_TEMPLATE("bgl_adjacency: reads every kind of adjacency_list, with weights of its members", Graph,
                   list<vecS, vecS, directedS>, list<vecS, vecS, undirectedS>,
                   list<listS, listS, bidirectionalS>, list<vecS, setS, undirectedS>) {
  cleave::testing::rng dice(3);
  for (int round = 0; round < 20; ++round) {
    auto const nodes = 1 + dice.below(12);
    std::vector<edge_said> edges(dice.below(30));
    for (auto& e : edges) e = {dice.below(nodes), dice.below(nodes), static_cast<float>(dice.below(9)) / 2};
    auto const g = listed<Graph>(nodes, edges);
    auto const made = bgl_adjacency(g, &road::length, &town::people);
    static_assert(std::is_same_v<decltype(made), adjacency<std::uint32_t, int, float> const>);
    CHECK_FALSE(find_adjacency_fault(made.view()));
    // a setS of vertices lists them in the order of their addresses
    std::vector<std::size_t> place(nodes);
    for (std::size_t at = 0; at < nodes; ++at) place[static_cast<std::size_t>(made.node_weight[at]) - 3] = at;
    auto renamed = edges;
    for (auto& e : renamed) e.a = place[e.a], e.b = place[e.b];
    CHECK(rows_of_graph(made) == rows_of_edges(nodes, renamed));
    CHECK(bgl_adjacency<std::uint64_t>(g).edge_weight.empty());
    CHECK(bgl_adjacency<std::uint64_t>(g).targets.size() == made.targets.size());
  }
}

TEST_CASE("bgl_adjacency: keeps one of several parallel edges in a set, as Boost does") {
  auto const g = listed<list<setS, vecS, undirectedS>>(2, {{0, 1, 2}, {1, 0, 3}});
  CHECK(bgl_adjacency(g).targets == std::vector<std::uint32_t>{1, 0});
}

TEST_CASE("bgl_adjacency: takes weights from a tag, a property map or a function") {
  using graph = boost::adjacency_list<vecS, vecS, undirectedS, boost::no_property,
                                      boost::property<boost::edge_weight_t, int>>;
  graph g(3);
  add_edge(0, 1, 5, g), add_edge(1, 2, 7, g);
  auto const by_tag = bgl_adjacency(g, boost::edge_weight);
  CHECK(by_tag.edge_weight == std::vector<int>{5, 5, 7, 7});
  CHECK(bgl_adjacency(g, get(boost::edge_weight, g)).edge_weight == by_tag.edge_weight);
  auto const doubled = [&g](auto const& e) { return 2.0 * get(boost::edge_weight, g, e); };
  CHECK(bgl_adjacency(g, doubled).edge_weight == std::vector<double>{10, 10, 14, 14});
  std::vector<std::int64_t> const people{10, 20, 30};
  auto const map = boost::make_iterator_property_map(people.begin(), get(boost::vertex_index, g));
  CHECK(bgl_adjacency(g, unsaid{}, map).node_weight == people);
  CHECK(bgl_adjacency(g, unsaid{}, people.data()).node_weight == people);  // a pointer is a map too
  CHECK(bgl_adjacency(g, unsaid{}, map).edge_weight.empty());
}

TEST_CASE("bgl_adjacency: reads matrices, compressed rows, filtered graphs and grids") {
  std::vector<edge_said> const edges{{0, 1, 2}, {1, 3, 4}, {3, 2, 1}};
  auto const expected = rows_of_edges(4, edges);
  boost::adjacency_matrix<undirectedS, town, road> square(4);
  boost::adjacency_matrix<directedS, town, road> arrows(4);
  for (auto const& e : edges)
    add_edge(e.a, e.b, road{e.length}, square), add_edge(e.a, e.b, road{e.length}, arrows);
  CHECK(rows_of_graph(bgl_adjacency(square, &road::length)) == expected);
  CHECK(rows_of_graph(bgl_adjacency(arrows, &road::length)) == expected);

  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  std::vector<road> lengths;
  for (auto const& e : edges) pairs.emplace_back(e.a, e.b), lengths.push_back({e.length});
  boost::compressed_sparse_row_graph<directedS, town, road> const rows(
      boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), lengths.begin(), 4);
  CHECK(rows_of_graph(bgl_adjacency(rows, &road::length)) == expected);
  boost::compressed_sparse_row_graph<bidirectionalS, town, road> const both(
      boost::edges_are_unsorted_multi_pass, pairs.begin(), pairs.end(), lengths.begin(), 4);
  CHECK(rows_of_graph(bgl_adjacency(both, &road::length)) == expected);

  auto const whole = listed<list<vecS, vecS, undirectedS>>(4, edges);
  auto const keep = [](std::size_t v) { return v != 0; };
  boost::filtered_graph<list<vecS, vecS, undirectedS>, boost::keep_all, decltype(keep)> const some(
      whole, boost::keep_all{}, keep);
  CHECK(rows_of_graph(bgl_adjacency(some, &road::length)) == rows_of_edges(3, {{0, 2, 4}, {2, 1, 1}}));

  boost::grid_graph<2> const grid(
      boost::array<std::size_t, 2>{{3, 2}});  // its vertices have no hash, and each edge goes both ways
  auto const made = bgl_adjacency(grid);
  CHECK(made.view().nodes() == 6);
  CHECK(made.view().directed_edges() == 2 * 2 * 7);
  CHECK_FALSE(find_adjacency_fault(made.view()));
}

TEST_CASE("bgl_adjacency: reads a graph without vertices, and rejects too many for the index type") {
  list<vecS, vecS, undirectedS> g;
  CHECK(bgl_adjacency(g).view().nodes() == 0);
  for (int n = 0; n < 300; ++n) add_vertex(g);
  CHECK(bgl_adjacency<std::uint16_t>(g).view().nodes() == 300);
  CHECK_THROWS_AS(bgl_adjacency<std::uint8_t>(g), index_overflow);
}
