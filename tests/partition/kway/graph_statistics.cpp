// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/graph_statistics.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/presets.hpp"
#include "cleave/partition/kway/kway.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::weighted_level;

bool adjacent(weighted_level const& g, std::uint32_t a, std::uint32_t b) {
  return std::find(g.targets.begin() + g.offsets[a], g.targets.begin() + g.offsets[a + 1], b) !=
         g.targets.begin() + g.offsets[a + 1];
}

/// The share of adjacent pairs among all pairs of neighbours of all nodes.
double closed_share(weighted_level const& g) {
  double wedges = 0, closed = 0;
  for (std::uint32_t n = 0; n < g.node_weight.size(); ++n)
    for (auto a = g.offsets[n]; a < g.offsets[n + 1]; ++a)
      for (auto b = g.offsets[n]; b < g.offsets[n + 1]; ++b)
        if (a != b) ++wedges, closed += adjacent(g, g.targets[a], g.targets[b]);
  return wedges == 0 ? 0 : closed / wedges;
}

/// A random graph without parallel edges.
weighted_level random_simple(testing::rng& r, std::size_t nodes, std::size_t degree) {
  std::set<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::size_t i = 0; i < nodes * degree / 2; ++i) {
    auto const a = static_cast<std::uint32_t>(r.below(nodes)), b = static_cast<std::uint32_t>(r.below(nodes));
    if (a != b) edges.emplace(std::min(a, b), std::max(a, b));
  }
  return testing::level_of(nodes, {edges.begin(), edges.end()});
}

/// A three-dimensional grid.
weighted_level box(std::uint32_t side) {
  weighted_level g;
  for (std::uint32_t n = 0; n < side * side * side; ++n) {
    for (std::uint32_t const step : {1u, side, side * side}) {
      if (n / step % side > 0) g.targets.push_back(n - step);
      if (n / step % side + 1 < side) g.targets.push_back(n + step);
    }
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  g.node_weight.assign(side * side * side, 1), g.edge_weight.assign(g.targets.size(), 1);
  return g;
}

/// A grid with a diagonal in each cell, in alternating directions.
weighted_level turned_diagonals(std::uint32_t side) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t n = 0; n < side * side; ++n) {
    auto const x = n % side, y = n / side;
    if (x + 1 < side) edges.emplace_back(n, n + 1);
    if (y + 1 < side) edges.emplace_back(n, n + side);
    if (x + 1 == side || y + 1 == side) continue;
    if ((x + y) % 2 == 0)
      edges.emplace_back(n, n + side + 1);
    else
      edges.emplace_back(n + 1, n + side);
  }
  return testing::level_of(side * side, edges);
}

/// A plain version of grows_like_random_graph: uses logarithms and all distances from the middle node.
bool half_is_near(weighted_level const& g) {
  auto const nodes = g.node_weight.size();
  double degrees = 0, pairs = 0, linked = 0;
  for (std::size_t n = 0; n < nodes; ++n) {
    auto const degree = static_cast<double>(g.offsets[n + 1] - g.offsets[n]);
    degrees += degree, pairs += degree * (degree - 1), linked += degree > 0;
  }
  if (linked == 0 || pairs / degrees < 1.5) return false;
  auto const steps = static_cast<std::size_t>(
      std::ceil(std::log(static_cast<double>(nodes)) / std::log(pairs / degrees) - 1e-9));
  std::vector<std::size_t> distance(nodes, nodes);
  distance[nodes / 2] = 0;
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t n = 0; n < nodes; ++n)
      for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
        if (distance[n] + 1 < distance[g.targets[e]])
          distance[g.targets[e]] = distance[n] + 1, changed = true;
  }
  auto const near =
      std::count_if(distance.begin(), distance.end(), [&](auto d) { return d <= steps + steps / 2; });
  return 2 * static_cast<std::size_t>(near) > nodes;
}

}  // namespace

TEST_CASE("closed_wedges: equals a direct count on small graphs") {
  testing::rng r(1);
  for (int i = 0; i < 100; ++i) {
    auto const g = random_simple(r, 3 + r.below(250), r.below(12));
    CHECK(closed_wedges(g.view()) == doctest::Approx(closed_share(g)));
  }
  CHECK(closed_wedges(testing::triangulated_squares(100).view()) == doctest::Approx(0.4).epsilon(0.1));
  CHECK(closed_wedges(box(12).view()) == 0);
}

TEST_CASE("choose_config: picks centre growing for meshes with many parts and matching for 3D grids") {
  testing::rng r(2);
  auto const config = [](weighted_level const& g, std::uint32_t parts) {
    return choose_config(kway_preset::standard, g.view(), parts);
  };
  auto const mesh = testing::triangulated_squares(120);
  CHECK(config(mesh, 64).first == first_method::centres);
  CHECK(config(mesh, 8).first == first_method::bisections);
  CHECK(config(mesh, 100).first == first_method::bisections);  // few nodes per part
  CHECK(config(mesh, 64).clusters == coarsening::labels);
  CHECK(choose_config(kway_preset::fast, mesh.view(), 64).first == first_method::bisections);
  auto const grid = box(40);
  CHECK(config(grid, 64).first == first_method::bisections);
  CHECK(config(grid, 64).clusters == coarsening::matching);
  auto const other = random_simple(r, 20'000, 8);
  CHECK(config(other, 64).first == first_method::bisections);
  CHECK(config(other, 64).clusters == coarsening::labels);
}

TEST_CASE("choose_quality_config: tries both first methods if either may win") {
  auto const mesh = testing::triangulated_squares(120);
  auto const e = choose_quality_config(mesh.view(), 64);
  CHECK(e.standard.first == first_method::centres);
  CHECK(std::any_of(e.trials.begin(), e.trials.end(),
                    [](kway_config const& t) { return t.first == first_method::bisections; }));
}

TEST_CASE("is_numbered_in_rows: recognizes lattices that are numbered row by row") {
  testing::rng r(3);
  for (auto const& g : {testing::triangulated_squares(60), turned_diagonals(60), box(16)}) {
    CHECK(is_numbered_in_rows(g.view()));
    CHECK(!is_numbered_in_rows(testing::shuffled(r, g).view()));
  }
  CHECK(!is_numbered_in_rows(random_simple(r, 5000, 6).view()));
  CHECK(!is_numbered_in_rows(random_simple(r, 5000, 0).view()));
  CHECK(!is_numbered_in_rows(weighted_level{}.view()));
}

TEST_CASE("choose_config: clusters of lattices prefer heavy neighbours in large parts, else light ones") {
  testing::rng r(4);
  auto const config = [](weighted_level const& g, std::uint32_t parts) {
    return choose_config(kway_preset::fast, g.view(), parts);
  };
  auto const mesh = turned_diagonals(60);
  CHECK(config(mesh, 3).ties == tie_breaking::heavier);
  CHECK(config(mesh, 4).ties == tie_breaking::lighter);
  CHECK(config(mesh, 3).shrink == 4);
  CHECK(config(testing::shuffled(r, mesh), 3).ties == tie_breaking::lighter);
  CHECK(config(testing::shuffled(r, mesh), 3).shrink == 8);
  CHECK(config(box(16), 4).ties == tie_breaking::heavier);
  CHECK(config(box(16), 4).shrink == 8);
  auto const round = choose_config(kway_preset::standard, testing::triangulated_squares(130).view(), 16);
  CHECK(round.first == first_method::centres);
  CHECK(round.ties == tie_breaking::lighter);
}

TEST_CASE("has_uniform_weights: holds only for weights that hardly differ") {
  auto g = box(20);
  CHECK(has_uniform_weights(g.view()));
  CHECK(has_uniform_weights(weighted_level{}.view()));
  testing::rng r(5);
  for (auto* weights : {&g.node_weight, &g.edge_weight}) {
    for (auto& w : *weights) w = 90 + static_cast<std::int64_t>(r.below(20));
    CHECK(has_uniform_weights(g.view()));
    for (auto& w : *weights) w = static_cast<std::int64_t>(r.below(20));
    CHECK(!has_uniform_weights(g.view()));
    weights->assign(weights->size(), 0);
    CHECK(has_uniform_weights(g.view()));
  }
}

TEST_CASE("choose_config: treats a lattice with varied weights like any other graph") {
  testing::rng r(6);
  auto g = box(40);
  for (auto& w : g.node_weight) w = 1 + static_cast<std::int64_t>(r.below(100));
  auto const e = choose_config(kway_preset::standard, g.view(), 64);
  CHECK(e.ties == tie_breaking::lighter);
  CHECK(e.clusters == coarsening::labels);
}

TEST_CASE("has_sparse_periphery: nodes of low degree form a periphery if they hold half of the weight") {
  auto g = testing::level_of(100, {{0, 1}, {1, 2}});
  auto const periphery = [&] { return has_sparse_periphery(g.view(), compute_degree_statistics(g.view())); };
  CHECK(periphery());
  for (std::size_t n = 0; n < 3; ++n) g.node_weight[n] = 1000;
  CHECK(!periphery());
  for (std::size_t n = 97; n < 100; ++n) g.node_weight[n] = 1000;
  CHECK(periphery());
}

TEST_CASE("choose_config: peels a sparse periphery instead of contracting it, unless the graph is local") {
  auto const core_with_leaves = [](bool closed) {  // 50 densely connected nodes with eight leaves each
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t core = 0; core < 50; ++core) {
      for (std::uint32_t other = closed ? 0 : 1 - core % 2; other < core; other += closed ? 1 : 2)
        edges.emplace_back(core, other);
      for (std::uint32_t leaf = 0; leaf < 8; ++leaf) edges.emplace_back(core, 50 + 8 * core + leaf);
    }
    return testing::level_of(450, edges);
  };
  auto const smallest = [](weighted_level const& g) {
    return choose_config(kway_preset::standard, g.view(), 2).bisection.smallest;
  };
  CHECK(smallest(core_with_leaves(false)) == 450);
  CHECK(smallest(core_with_leaves(true)) < 100);  // neighbours of a node are adjacent
  testing::rng r(7);
  CHECK(smallest(random_simple(r, 450, 12)) < 100);
}

TEST_CASE("choose_config: does not contract graphs with skewed degrees and no locality") {
  testing::rng r(8);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges{{0, 1}};
  std::set<std::pair<std::uint32_t, std::uint32_t>> known(edges.begin(), edges.end());
  for (std::uint32_t n = 2; n < 3000; ++n)
    for (int i = 0; i < 4; ++i) {  // to an end of a random edge: preferential attachment
      auto const& e = edges[r.below(edges.size())];
      auto const to = r.one_in(2) ? e.first : e.second;
      if (to != n && known.emplace(to, n).second) edges.emplace_back(to, n);
    }
  auto const g = testing::level_of(3000, edges);
  REQUIRE(compute_degree_statistics(g.view()).skewed());
  CHECK(choose_config(kway_preset::standard, g.view(), 4).least_nodes == 3000);
  CHECK(choose_config(kway_preset::fast, g.view(), 4).bisection.arcs ==
        2 * g.view().directed_edges());  // tried twice
  CHECK(!has_sparse_periphery(g.view(), compute_degree_statistics(g.view())));
}

TEST_CASE("grows_like_random_graph: holds for random graphs, not for grids, boxes, meshes or trees") {
  auto const grows = [](weighted_level const& g) {
    return grows_like_random_graph(g.view(), compute_degree_statistics(g.view()));
  };
  testing::rng r(9);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> tree, grid;
  for (std::uint32_t n = 1; n < 4096; ++n) tree.emplace_back((n - 1) / 2, n);
  for (std::uint32_t n = 0; n < 4096; ++n) {
    if (n % 64 < 63) grid.emplace_back(n, n + 1);
    if (n < 4032) grid.emplace_back(n, n + 64);
  }
  CHECK(!grows(testing::level_of(4096, tree)));
  CHECK(!grows(testing::level_of(4096, grid)));
  CHECK(!grows(box(20)));
  CHECK(!grows(turned_diagonals(64)));
  for (std::size_t degree : {4u, 6u, 16u}) CHECK(grows(random_simple(r, 4096, degree)));
  for (std::size_t i = 0; i < 300; ++i) {
    auto const g = random_simple(r, 2 + r.below(300), 1 + r.below(8));
    CHECK(grows(g) == half_is_near(g));
  }
  CHECK(!grows(testing::level_of(0, {})));
  CHECK(!grows(testing::level_of(5, {})));
}

TEST_CASE("choose_config: only `fast` contracts random graphs") {
  testing::rng r(10);
  auto const g = random_simple(r, 5000, 8);
  REQUIRE(!compute_degree_statistics(g.view()).skewed());
  CHECK(choose_config(kway_preset::fast, g.view(), 4).least_nodes < 5000);
  CHECK(choose_config(kway_preset::standard, g.view(), 4).least_nodes == 5000);
  for (auto const& trial : choose_quality_config(g.view(), 16).trials)  // no round parts exist
    CHECK((trial.first == first_method::bisections && trial.least_nodes == 5000));
  CHECK(choose_quality_config(g.view(), 16).trials.size() == 1);
  CHECK(choose_config(kway_preset::standard, box(20).view(), 4).least_nodes < 5000);
}
