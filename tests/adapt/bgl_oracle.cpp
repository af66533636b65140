// SPDX-License-Identifier: MIT
// Uses Boost.Graph to check algorithms that do not use it.
#include <doctest/doctest.h>

#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/strong_components.hpp>
#include <boost/graph/topological_sort.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <vector>

#include "cleave/adapt/bgl/bgl_min_cut.hpp"
#include "cleave/adapt/bgl/dataflow.hpp"
#include "cleave/adapt/bgl/property.hpp"
#include "cleave/graph/components.hpp"
#include "cleave/graph/flow/undirected_flow.hpp"
#include "cleave/graph/order.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using digraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;

digraph random_digraph(cleave::testing::rng& dice, std::size_t nodes, std::size_t edges, bool forward) {
  digraph g(nodes);
  while (edges-- > 0) {
    auto a = dice.below(nodes), b = dice.below(nodes);
    if (forward && a > b) std::swap(a, b);
    if (a != b) add_edge(a, b, g);
  }
  return g;
}

std::vector<std::size_t> strong_components_of(digraph const& g) {
  std::vector<std::size_t> of(num_vertices(g));
  boost::strong_components(g, boost::make_iterator_property_map(of.begin(), get(boost::vertex_index, g)));
  return of;
}

/// Returns whether two lists group the same indices.
template <class A, class B>
bool same_classes(std::vector<A> const& a, std::vector<B> const& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if ((a[i] == a[j]) != (b[i] == b[j])) return false;
  return a.size() == b.size();
}

struct arc {
  std::size_t from, to;
  double cost;
};

}  // namespace

TEST_CASE("components_of: finds the components that Boost finds, and is_acyclic agrees with Boost") {
  cleave::testing::rng dice(10);
  int cyclic = 0;
  for (int round = 0; round < 150; ++round) {
    auto const nodes = 1 + dice.below(40);
    auto const g = random_digraph(dice, nodes, dice.below(2 * nodes), dice.one_in(3));
    csr<std::uint32_t> needs;
    for (auto [v, last] = vertices(g); v != last; ++v) {
      for (auto [e, end] = out_edges(*v, g); e != end; ++e)
        needs.add(static_cast<std::uint32_t>(boost::target(*e, g)));
      needs.close();
    }
    bool ordered = true;
    std::vector<std::size_t> order;
    try {
      boost::topological_sort(g, std::back_inserter(order));
    } catch (boost::not_a_dag const&) {
      ordered = false;
      ++cyclic;
    }
    CHECK(is_acyclic(needs) == ordered);
    auto const of = components_of(needs);
    CHECK(of.empty() == ordered);
    if (!ordered) CHECK(same_classes(of, strong_components_of(g)));

    if (ordered) {
      bgl_dataflow const read(g);
      std::vector<std::size_t> place(nodes);
      for (std::size_t i = 0; i < nodes; ++i) place[read.nodes()[i]] = i;
      for (auto [e, end] = edges(g); e != end; ++e)
        CHECK(place[boost::source(*e, g)] < place[boost::target(*e, g)]);
    } else {
      CHECK_THROWS_AS(bgl_dataflow{g}, cycle_error<std::size_t>);
    }
  }
  CHECK(cyclic > 30);
}

TEST_CASE("verify_dag_partition: finds a cycle between parts exactly if Boost does") {
  cleave::testing::rng dice(11);
  int circles = 0;
  for (int round = 0; round < 150; ++round) {
    auto const nodes = 2 + dice.below(20);
    auto const parts = static_cast<std::uint32_t>(1 + dice.below(5));
    auto const g = random_digraph(dice, nodes, dice.below(2 * nodes), true);
    partition p{{}, parts};
    for (std::size_t n = 0; n < nodes; ++n)
      p.of.push_back(
          part_id{static_cast<std::uint32_t>(dice.one_in(4) ? dice.below(parts) : n * parts / nodes)});
    std::vector<arc> arcs;
    digraph quotient(parts);
    for (auto [e, end] = edges(g); e != end; ++e) {
      arcs.push_back({boost::source(*e, g), boost::target(*e, g), 1});
      auto const from = index(p.of[boost::source(*e, g)]), to = index(p.of[boost::target(*e, g)]);
      if (from != to) add_edge(from, to, quotient);
    }
    std::vector<std::size_t> all(parts);
    for (std::size_t i = 0; i < parts; ++i) all[i] = i;
    bool const cycle = !same_classes(strong_components_of(quotient), all);
    circles += cycle;
    auto const verdict = verify_dag_partition<arc>(std::vector<double>(nodes, 1), arcs, p);
    CHECK(verdict.cycle.empty() == !cycle);
    CHECK(verdict.cut == num_edges(quotient));
  }
  CHECK(circles > 20);
}

TEST_CASE("undirected_flow: reaches the maximum flow that Boost finds") {
  cleave::testing::rng dice(12);
  for (int round = 0; round < 12; ++round) {
    auto const nodes = 20 + dice.below(150);
    std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> rows(nodes);
    undirected_flow flow;
    flow.clear(nodes);
    for (auto edges = 4 * nodes; edges > 0; --edges) {
      auto const a = static_cast<std::uint32_t>(dice.below(nodes)),
                 b = static_cast<std::uint32_t>(dice.below(nodes));
      auto const w = static_cast<std::int64_t>(dice.below(100));
      if (a == b) continue;
      rows[a].emplace_back(b, w), rows[b].emplace_back(a, w);
      flow.edge(a, b, w);
    }
    flow.build();
    adjacency<std::uint32_t> g;
    for (auto const& row : rows) {
      for (auto const& [to, w] : row) g.targets.push_back(to), g.edge_weight.push_back(w);
      g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    }
    std::vector<std::size_t> const sources{0, 1, 2}, sinks{nodes - 1, nodes - 2};
    for (auto const n : sources) flow.add(flow_end::source, static_cast<std::uint32_t>(n));
    for (auto const n : sinks) flow.add(flow_end::sink, static_cast<std::uint32_t>(n));
    CHECK(flow.advance(flow_end::source, std::numeric_limits<std::int64_t>::max()));
    auto const boosts = min_cut_between(g.view(), sources, sinks);
    CHECK(static_cast<double>(flow.flow()) == boosts.cut);
    CHECK(static_cast<double>(verify_partition(g.view(), boosts, {.imbalance = 10}).cut) == boosts.cut);
  }
}
