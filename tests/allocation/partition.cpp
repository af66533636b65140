// SPDX-License-Identifier: MIT
#include "cleave/partition.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/acyclic.hpp"
#include "cleave/classic.hpp"
#include "cleave/dissection.hpp"
#include "cleave/exact.hpp"
#include "cleave/graph/hypergraph.hpp"
#include "cleave/hypergraph.hpp"
#include "cleave/kway.hpp"
#include "cleave/mapping.hpp"
#include "cleave/repartition.hpp"
#include "cleave/streaming.hpp"
#include "support/allocation_faults.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/small_adjacency.hpp"

using namespace cleave;
using testing::check_each_failure;

namespace {

using graph = adjacency<std::uint32_t>;

bool same(graph const& a, graph const& b) {
  return a.offsets == b.offsets && a.targets == b.targets && a.node_weight == b.node_weight &&
         a.edge_weight == b.edge_weight;
}

graph some_graph() {
  testing::rng r(1);
  return testing::random_adjacency(r, 24, 50, 4);
}

/// Checks an algorithm on undirected graphs, which returns a partition or the like.
template <class F>
void check_on_graph(F f) {
  auto const g = some_graph();
  check_each_failure([&] { return f(g.view()); }, [&] { return same(g, some_graph()); });
}

snapshot_arrays some_dag() {
  testing::rng r(2);
  return testing::random_graph(r, {.nodes = 24, .states = 2, .replicable = 8});
}

/// Checks an algorithm on acyclic graphs.
template <class F>
void check_on_dag(F f) {
  auto const g = some_dag();
  check_each_failure([&] { return f(g); });
}

}  // namespace

TEST_CASE("partition_kway: each allocation that fails is told, on one and on two threads") {
  for (std::uint32_t const threads : {1U, 2U}) {
    CAPTURE(threads);
    check_on_graph([&](auto view) {
      return partition_kway(view, 3, {.preset = kway_preset::fast, .threads = threads}).of;
    });
  }
}

TEST_CASE("partition_kway: all presets and further weights tell of each allocation that fails") {
  check_on_graph([](auto view) { return partition_kway(view, 4, {.preset = kway_preset::quality}).of; });
  check_on_graph([](auto view) {
    kway_options o{.preset = kway_preset::fast, .imbalance = 0.3};
    o.further_weights = {{std::vector<double>(view.nodes(), 1.0), 0.5}};
    return partition_kway(view, 3, o).of;
  });
}

TEST_CASE("refine_kway, map_kway and repartition: each allocation that fails is told") {
  partition start{{}, 3};
  for (std::uint32_t n = 0; n < 24; ++n) start.of.push_back(part_id{n % 3});
  auto const before = start;
  auto const g = some_graph();
  check_each_failure([&] { return refine_kway(g.view(), start, {.preset = kway_preset::fast}).of; },
                     [&] { return start == before && same(g, some_graph()); });
  check_each_failure([&] { return repartition(g.view(), start, 4).of; }, [&] { return start == before; });
  auto const m = machine::hierarchy({2, 2}, {1, 10});
  check_each_failure([&] { return map_kway(g.view(), m, {.preset = kway_preset::fast}).of; });
}

TEST_CASE("classic methods: each allocation that fails is told") {
  for (auto const& method : classic_methods) {
    CAPTURE(method.name);
    check_on_graph([&](auto view) { return classic_partition(method.name, view, 3).of; });
  }
  check_on_graph([](auto view) { return label_clusters(view).of; });
  check_on_graph([](auto view) {
    return kernighan_lin(view, fiduccia_mattheyses(view, {std::vector<part_id>(24), 2})).of;
  });
}

TEST_CASE("rules for chains and points: each allocation that fails is told") {
  std::vector<double> weights;
  std::vector<std::int64_t> bytes;
  std::vector<pipedream_layer> layers;
  std::vector<std::array<double, 2>> points;
  for (int i = 0; i < 20; ++i) {
    weights.push_back(1 + i * 7 % 5);
    bytes.push_back(1000 + i * 7 % 5);
    layers.push_back({1.0 + i * 7 % 5, 100, 10});
    points.push_back({i * 7 % 5 * 1.0, i * 3 % 7 * 1.0});
  }
  check_each_failure([&] { return deepspeed_balanced(weights, 4); });
  check_each_failure([&] { return torchgpipe_blocks(weights, 4); });
  check_each_failure([&] { return accelerate_fill(bytes, 4).of; });
  check_each_failure([&] { return find_pipedream_plan(layers, 4).has_value(); });
  check_each_failure([&] { return partition_by_coordinates<2>(points, 4).of; });
  check_each_failure([&] { return partition_by_curve<2>(points, 4).of; });
  check_each_failure([&] { return slice_weights<double>(weights, 4).at; });
}

TEST_CASE("partition_hypergraph: each allocation that fails is told, on one and on two threads") {
  testing::rng r(3);
  std::vector<std::uint32_t> offsets{0}, pins;
  for (int net = 0; net < 40; ++net) {
    for (auto n = 2 + r.below(4); n > 0; --n) pins.push_back(static_cast<std::uint32_t>(r.below(30)));
    std::sort(pins.begin() + offsets.back(), pins.end());
    pins.erase(std::unique(pins.begin() + offsets.back(), pins.end()), pins.end());
    offsets.push_back(static_cast<std::uint32_t>(pins.size()));
  }
  for (std::uint32_t const threads : {1U, 2U})
    check_each_failure([&] {
      hypergraph_view const view{30, offsets, pins};
      return partition_hypergraph(view, 3, {.preset = kway_preset::fast, .threads = threads}).of;
    });
}

TEST_CASE("stream_partitioner: each allocation that fails is told") {
  auto const g = some_graph();
  auto const view = g.view();
  graph_totals totals{view.nodes(), 0, 0};
  for (std::size_t n = 0; n < totals.nodes; ++n) *totals.node_weight += view.weight(n);
  for (std::size_t e = 0; e < g.targets.size(); ++e) *totals.edge_weight += view.weight_of_edge(e);
  *totals.edge_weight /= 2;
  for (std::size_t const buffer : {std::size_t{0}, std::size_t{15}})
    check_each_failure([&] {
      stream_partitioner s(3, totals, {.imbalance = 1, .buffer = buffer, .preset = kway_preset::fast});
      for (std::size_t n = 0; n < view.nodes(); ++n) {
        std::vector<std::uint64_t> to;
        std::vector<std::int64_t> weight;
        for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
          to.push_back(g.targets[e]);
          weight.push_back(view.weight_of_edge(e));
        }
        s.add(to, view.weight(n), weight);
      }
      return s.finish().of;
    });
}

TEST_CASE("separators, orders and minimum cuts: each allocation that fails is told") {
  check_on_graph([](auto view) { return vertex_separator(view).side; });
  check_on_graph([](auto view) { return nested_dissection(view).order; });
  check_on_graph([](auto view) { return cholesky_fill(view, nested_dissection(view).order).nonzeros; });
  testing::rng r(4);
  auto const few = testing::random_adjacency(r, 10, 20, 3);
  check_each_failure([&] { return min_k_cut(few.view(), 3, {.imbalance = 1}).of; });
}

TEST_CASE("balance and other cuts of acyclic graphs: each allocation that fails is told") {
  check_on_dag([](auto const& g) { return balance(g, 3, {.random_orders = 4}).of; });
  std::vector<rank_id> const rank_of{rank_id{0}, rank_id{1}, rank_id{0}, rank_id{1}};
  check_on_dag([&](auto const& g) { return balance_ranks(g, rank_of, 2, {.random_orders = 2}).stages.of; });
  check_on_dag([](auto const& g) { return partition_acyclic(g, 3).of; });
  check_on_dag([](auto const& g) { return fill_buckets(g, state_counts(g), {.cap = 20}).of; });
  testing::rng r(5);
  auto const few = testing::random_graph(r, {.nodes = 8});
  check_each_failure([&] { return partition_exact(few, 3).of; });
  auto const old = balance(few, 2);
  check_each_failure([&] { return repartition_stages(few, old, 3).of; });
}

TEST_CASE("groups, cuts by name and repaired cycles: each allocation that fails is told") {
  auto const supported = [](auto const& g) {
    std::vector<char> s(g.nodes());
    for (std::size_t n = 0; n < s.size(); ++n) s[n] = n % 3 != 0;
    return s;
  };
  check_on_dag([&](auto const& g) { return alternation(g, supported(g)).of; });
  check_on_dag([&](auto const& g) {
    auto const groups = capability_groups(g, supported(g));
    return partition_of(groups, g.nodes()).of;
  });
  check_on_dag([](auto const& g) {
    auto const p = assign(g, [](std::size_t n) { return "part " + std::to_string(n % 3); });
    return acyclic_parts(g, p, cycle_policy::merge).parts.of;
  });
  check_on_dag([](auto const& g) {
    return cut_at(g, cuts_by_policy(g, [](std::size_t n) { return n % 7 == 3; })).of;
  });
}
