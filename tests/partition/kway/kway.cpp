// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/kway.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::rng;

namespace {

using weighted_graph_arrays = adjacency<std::uint32_t, std::int64_t>;

struct listed_edge {
  std::uint32_t a, b;
  std::int64_t weight = 1;
};

weighted_graph_arrays graph_of(std::uint32_t nodes, std::vector<listed_edge> const& edges) {
  weighted_graph_arrays g;
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> rows(nodes);
  bool weighted = false;
  for (auto const& e : edges) {
    rows[e.a].emplace_back(e.b, e.weight);
    if (e.a != e.b) rows[e.b].emplace_back(e.a, e.weight);
    weighted |= e.weight != 1;
  }
  for (auto const& row : rows) {
    for (auto const& [to, w] : row) {
      g.targets.push_back(to);
      if (weighted) g.edge_weight.push_back(w);
    }
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

weighted_graph_arrays path_of(std::uint32_t nodes, std::int64_t weight = 1) {
  std::vector<listed_edge> edges;
  for (std::uint32_t n = 1; n < nodes; ++n) edges.push_back({n - 1, n, weight});
  return graph_of(nodes, edges);
}

weighted_graph_arrays grid_of(std::uint32_t rows, std::uint32_t columns) {
  std::vector<listed_edge> edges;
  for (std::uint32_t r = 0; r < rows; ++r)
    for (std::uint32_t c = 0; c < columns; ++c) {
      auto const n = r * columns + c;
      if (c + 1 < columns) edges.push_back({n, n + 1});
      if (r + 1 < rows) edges.push_back({n, n + columns});
    }
  return graph_of(rows * columns, edges);
}

/// Groups of `size` nodes, densely connected inside, with `between` edges from each group to the next.
weighted_graph_arrays planted_groups(std::uint32_t groups, std::uint32_t size, std::uint32_t between,
                                     rng& random) {
  std::vector<listed_edge> edges;
  auto const member = [&](std::uint32_t group) {
    return group * size + static_cast<std::uint32_t>(random.below(size));
  };
  for (std::uint32_t group = 0; group < groups; ++group) {
    for (std::uint32_t n = 1; n < size; ++n) edges.push_back({group * size + n - 1, group * size + n});
    for (std::uint32_t i = 0; i < 6 * size; ++i) edges.push_back({member(group), member(group)});
    for (std::uint32_t i = 0; i < between && group + 1 < groups; ++i)
      edges.push_back({member(group), member(group + 1)});
  }
  return graph_of(groups * size, edges);
}

weighted_graph_arrays random_weighted(std::uint32_t nodes, std::uint32_t edges, rng& random) {
  std::vector<listed_edge> list;
  for (std::uint32_t i = 0; i < edges; ++i)
    list.push_back({static_cast<std::uint32_t>(random.below(nodes)),
                    static_cast<std::uint32_t>(random.below(nodes)),
                    static_cast<std::int64_t>(random.below(9))});
  auto g = graph_of(nodes, list);
  for (std::uint32_t n = 0; n < nodes; ++n)
    g.node_weight.push_back(static_cast<std::int64_t>(random.below(5)));
  return g;
}

/// A graph with degrees as skewed as those of a social network; some nodes have no edges.
weighted_graph_arrays skewed_graph(std::uint32_t nodes, std::uint32_t edges, rng& random) {
  std::vector<listed_edge> list;
  auto const node = [&] {
    auto n = random.below(nodes);
    for (int i = 0; i < 3; ++i) n = std::min(n, random.below(nodes));
    return static_cast<std::uint32_t>(n);
  };
  for (std::uint32_t i = 0; i < edges; ++i) list.push_back({node(), node()});
  return graph_of(nodes, list);
}

std::int64_t cut_of(weighted_graph_arrays const& g, std::vector<part_id> const& of) {
  auto const v = g.view();
  std::int64_t cut = 0;
  for (std::size_t n = 0; n < v.nodes(); ++n)
    for (std::size_t e = v.offsets[n]; e < v.offsets[n + 1]; ++e)
      if (of[n] != of[v.targets[e]]) cut += v.weight_of_edge(e);
  return cut / 2;
}

template <class Result>
std::size_t empty_parts(Result const& p) {
  std::vector<int> used(p.parts, 0);
  for (auto const part : p.of) used.at(index(part)) = 1;
  return static_cast<std::size_t>(std::count(used.begin(), used.end(), 0));
}

/// Checks the reported numbers, and the heaviest part against its limit.
template <class Result>
void check_parts(weighted_graph_arrays const& g, Result const& p, double epsilon) {
  REQUIRE(p.of.size() == g.view().nodes());
  std::vector<std::int64_t> weight(p.parts, 0);
  std::int64_t total = 0;
  for (std::size_t n = 0; n < p.of.size(); ++n) {
    weight.at(index(p.of[n])) += g.view().weight(n);
    total += g.view().weight(n);
  }
  CHECK(p.part_weights == weight);
  CHECK(p.cut == cut_of(g, p.of));
  auto const fair = (total + p.parts - 1) / p.parts;
  auto const heaviest = *std::max_element(weight.begin(), weight.end());
  if (fair > 0)
    CHECK(p.imbalance == doctest::Approx(static_cast<double>(heaviest) / static_cast<double>(fair) - 1));
  if (p.within_limits) {
    std::int64_t node = 0;
    for (std::size_t n = 0; n < p.of.size(); ++n) node = std::max<std::int64_t>(node, g.view().weight(n));
    CHECK(heaviest <= std::max(node, fair + static_cast<std::int64_t>(epsilon * static_cast<double>(fair))));
  }
}

kway_preset const presets[] = {kway_preset::fast, kway_preset::standard, kway_preset::quality};

/// The least cut of all partitions within the limit without empty parts; -1 if no such partition exists.
std::int64_t min_k_cut(weighted_graph_arrays const& g, std::uint32_t k, std::int64_t limit) {
  auto const n = g.view().nodes();
  std::vector<part_id> of(n, part_id{0});
  std::int64_t best = -1;
  for (;;) {
    std::vector<std::int64_t> weight(k, 0), nodes(k, 0);
    for (std::size_t i = 0; i < n; ++i) {
      weight[index(of[i])] += g.view().weight(i);
      ++nodes[index(of[i])];
    }
    if (*std::max_element(weight.begin(), weight.end()) <= limit &&
        *std::min_element(nodes.begin(), nodes.end()) > 0)
      if (auto const cut = cut_of(g, of); best < 0 || cut < best) best = cut;
    std::size_t i = 0;
    while (i < n && index(of[i]) + 1 == k) of[i++] = part_id{0};
    if (i == n) return best;
    of[i] = part_id{index(of[i]) + 1};
  }
}

}  // namespace

TEST_CASE("partition_kway: one part takes all nodes, and a graph without nodes has no cut") {
  auto const path = path_of(10);
  CHECK(partition_kway(path.view(), 1).cut == 0);
  CHECK(partition_kway(path.view(), 1).of == std::vector<part_id>(10, part_id{0}));
  weighted_graph_arrays const nothing;
  CHECK(partition_kway(nothing.view(), 3).of.empty());
  CHECK(partition_kway(adjacency_view<int>{}, 3).cut == 0);
}

TEST_CASE("partition_kway: as many parts as nodes get one node each, and further parts stay empty") {
  for (auto const preset : presets) {
    auto const all = partition_kway(path_of(64).view(), 64, {.preset = preset});
    CHECK(all.cut == 63);
    CHECK(empty_parts(all) == 0);
    auto const few = partition_kway(path_of(3).view(), 8, {.preset = preset});
    CHECK(few.cut == 2);
    CHECK(empty_parts(few) == 5);
    CHECK(empty_parts(partition_kway(path_of(1).view(), 2, {.preset = preset})) == 1);
  }
}

TEST_CASE("partition_kway: half as many parts as nodes are pairs of neighbours on a path") {
  auto const pairs = static_cast<std::uint32_t>(testing::cases(200, 5'000));
  auto const path = path_of(2 * pairs);
  for (auto const preset : presets) {
    auto const p = partition_kway(path.view(), pairs, {.preset = preset});
    CHECK(empty_parts(p) == 0);
    CHECK(p.within_limits);
    CHECK(p.cut == pairs - 1);
  }
}

TEST_CASE("partition_kway: cuts a long path once") {
  auto const path = path_of(static_cast<std::uint32_t>(testing::cases(100'000, 1'000'000)));
  auto const p = partition_kway(path.view(), 2, {.preset = kway_preset::fast});
  CHECK(p.within_limits);
  CHECK(p.cut == 1);
}

TEST_CASE("partition_kway: spreads nodes without edges and keeps components whole") {
  auto const loose = graph_of(16, {});
  auto const p = partition_kway(loose.view(), 3);
  CHECK(p.cut == 0);
  CHECK(empty_parts(p) == 0);
  check_parts(loose, p, 0.03);
  std::vector<listed_edge> edges;
  for (std::uint32_t n = 1; n < 32; ++n)
    if (n != 16) edges.push_back({n - 1, n});
  CHECK(partition_kway(graph_of(32, edges).view(), 2).cut == 0);
}

TEST_CASE("partition_kway: accepts nodes of weight 0") {
  auto g = path_of(16);
  g.node_weight.assign(16, 0);
  check_parts(g, partition_kway(g.view(), 4), 0.03);
  CHECK(empty_parts(partition_kway(g.view(), 4)) == 0);
  auto half = path_of(32);
  for (std::uint32_t n = 0; n < 32; ++n) half.node_weight.push_back(n % 2);
  auto const p = partition_kway(half.view(), 4);
  CHECK(p.cut == 3);
  CHECK(p.imbalance == 0);
}

TEST_CASE("partition_kway: a node above the limit makes the heaviest part, and no part is empty") {
  auto g = path_of(16);
  g.node_weight.assign(16, 1);
  g.node_weight[5] = 100;
  for (auto const preset : presets) {
    auto const p = partition_kway(g.view(), 4, {.preset = preset});
    CHECK(empty_parts(p) == 0);
    CHECK(*std::max_element(p.part_weights.begin(), p.part_weights.end()) == 100);
  }
}

TEST_CASE("partition_kway: sums weights far beyond 2^31 without overflow") {
  auto g = path_of(16);
  g.node_weight.assign(16, std::int64_t{1} << 30);
  auto p = partition_kway(g.view(), 4);
  CHECK(p.cut == 3);
  CHECK(p.imbalance == 0);
  g.node_weight.assign(16, std::int64_t{1} << 58);
  p = partition_kway(g.view(), 4);
  CHECK(p.cut == 3);
  CHECK(p.imbalance == 0);
  auto const heavy_edges = path_of(16, std::int64_t{1} << 57);
  CHECK(partition_kway(heavy_edges.view(), 4).cut == 3 * (std::int64_t{1} << 57));
}

TEST_CASE("partition_kway: balances graphs whose edges weigh nothing") {
  auto const p = partition_kway(path_of(16, 0).view(), 4);
  CHECK(p.cut == 0);
  CHECK(p.imbalance == 0);
}

TEST_CASE("partition_kway: ignores self-loops and adds up parallel edges") {
  std::vector<listed_edge> edges;
  for (std::uint32_t n = 1; n < 16; ++n) edges.push_back({n - 1, n});
  for (std::uint32_t n = 0; n < 16; ++n) edges.push_back({n, n});
  CHECK(partition_kway(graph_of(16, edges).view(), 4).cut == 3);
  edges.clear();
  for (std::uint32_t n = 1; n < 16; ++n) edges.insert(edges.end(), 2, {n - 1, n});
  CHECK(partition_kway(graph_of(16, edges).view(), 4).cut == 6);
}

TEST_CASE("partition_kway: cuts a star and a clique within the limits") {
  std::vector<listed_edge> star, clique;
  auto const leaves = static_cast<std::uint32_t>(testing::cases(1'100, 5'000)),
             heaviest = (leaves + 8) / 8 * 103 / 100;
  for (std::uint32_t n = 1; n <= leaves; ++n) star.push_back({0, n});
  auto const in_clique = static_cast<std::uint32_t>(testing::cases(40, 300));
  for (std::uint32_t a = 0; a < in_clique; ++a)
    for (std::uint32_t b = a + 1; b < in_clique; ++b) clique.push_back({a, b});
  for (auto const preset : presets) {
    auto const of_star = partition_kway(graph_of(leaves + 1, star).view(), 8, {.preset = preset});
    CHECK(of_star.within_limits);
    CHECK(empty_parts(of_star) == 0);
    CHECK(of_star.cut == leaves + 1 - heaviest);  // the part of the hub is as heavy as allowed
    auto const of_clique = partition_kway(graph_of(in_clique, clique).view(), 7, {.preset = preset});
    CHECK(of_clique.within_limits);
    CHECK(empty_parts(of_clique) == 0);
  }
}

TEST_CASE("partition_kway: cuts of small graphs are never below the optimum, and at most 20 % above in sum") {
  rng random(7);
  std::int64_t reached = 0, least = 0;
  for (std::size_t round = 0; round < testing::cases(20, 60); ++round) {
    auto const n = static_cast<std::uint32_t>(4 + random.below(5));
    auto const k = static_cast<std::uint32_t>(2 + random.below(2));
    auto const g = random_weighted(n, 2 * n, random);
    for (auto const preset : presets) {
      auto const p = partition_kway(g.view(), k, {.preset = preset, .imbalance = 0.2, .seed = random.next()});
      check_parts(g, p, 0.2);
      auto const limit = *std::max_element(p.part_weights.begin(), p.part_weights.end());
      auto const best = min_k_cut(g, k, limit);
      REQUIRE(best >= 0);
      CHECK(p.cut >= best);
      reached += p.cut;
      least += best;
    }
  }
  CHECK(reached <= least + least / 5);
}

TEST_CASE("partition_kway: finds planted groups exactly") {
  rng random(3);
  for (std::uint32_t const k : {2u, 5u}) {
    auto const g = planted_groups(k, 200, 10, random);
    for (auto const preset : presets)
      CHECK(partition_kway(g.view(), k, {.preset = preset}).cut == 10 * (k - 1));
  }
}

TEST_CASE("partition_kway: cuts a grid nearly as well as straight lines do") {
  auto const side = static_cast<std::uint32_t>(testing::cases(60, 120));
  auto const g = grid_of(side, side);
  for (auto const preset : presets) {
    auto const p = partition_kway(g.view(), 4, {.preset = preset});
    check_parts(g, p, 0.03);
    CHECK(p.within_limits);
    CHECK(p.cut <= 2 * side * 7 / 6);
  }
}

TEST_CASE("partition_kway: gives the same parts within the limits with any number of threads") {
  rng random(11);
  auto const size = [](std::size_t some, std::size_t all) {
    return static_cast<std::uint32_t>(testing::cases(some, all));
  };
  std::vector<weighted_graph_arrays> const graphs{
      grid_of(size(50, 90), size(60, 110)), skewed_graph(size(3'000, 6'000), size(7'500, 15'000), random),
      random_weighted(size(600, 1'200), size(2'000, 4'000), random)};
  std::size_t number = 0;
  for (auto const& g : graphs) {
    bool const odd = ++number % 2 != 0;
    for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
      if ((preset == kway_preset::standard) != odd && !testing::all_cases()) continue;
      auto const one = partition_kway(g.view(), 6, {.preset = preset, .seed = 5});
      check_parts(g, one, 0.03);
      CHECK(one.within_limits);
      for (std::uint32_t const threads : {2u, 3u, 5u}) {
        if (threads != 3 && !testing::all_cases()) continue;
        CHECK(partition_kway(g.view(), 6, {.preset = preset, .seed = 5, .threads = threads}).of == one.of);
      }
    }
  }
}

TEST_CASE("partition_kway: accepts unequal shares and limits") {
  auto const g = grid_of(60, 60);
  auto const p = partition_kway(g.view(), 3, {.imbalance = {0.01, 0.01, 0.1}, .share = {1.0, 2.0, 3.0}});
  CHECK(p.within_limits);
  CHECK(p.part_weights[0] <= 606);
  CHECK(p.part_weights[1] <= 1212);
  CHECK(p.part_weights[2] <= 1980);
  CHECK(p.cut <= 150);
}

TEST_CASE("partition_kway: keeps fixed nodes in their parts") {
  auto const g = grid_of(40, 40);
  std::vector<part_id> fixed(1600, no_part);
  for (std::uint32_t n = 0; n < 40; ++n) fixed[n] = part_id{2}, fixed[1560 + n] = part_id{0};
  for (auto const preset : presets) {
    auto const p = partition_kway(g.view(), 4, {.preset = preset, .fixed = fixed});
    CHECK(p.within_limits);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      if (fixed[n] != no_part) REQUIRE(p.of[n] == fixed[n]);
    CHECK(p.cut <= 140);
  }
}

TEST_CASE("partition_kway: measures the cut and the imbalance of floating-point weights correctly") {
  rng random(5);
  auto const whole = random_weighted(600, 2400, random);
  adjacency<std::uint64_t, float, double> part;
  part.offsets.assign(whole.offsets.begin(), whole.offsets.end());
  part.targets.assign(whole.targets.begin(), whole.targets.end());
  for (auto const w : whole.node_weight) part.node_weight.push_back(static_cast<float>(w) * 0.25f);
  for (auto const w : whole.edge_weight) part.edge_weight.push_back(static_cast<double>(w) * 0.125);
  auto const p = partition_kway(part.view(), 6);
  CHECK(p.within_limits);
  CHECK(p.cut == doctest::Approx(0.125 * static_cast<double>(cut_of(whole, p.of))));
  CHECK(p.imbalance <= 0.031);
}

TEST_CASE("refine_kway: brings a partition within the limits and does not worsen the cut") {
  rng random(2);
  auto const g = grid_of(50, 50);
  partition start{.of = std::vector<part_id>(2500, part_id{0}), .parts = 5};
  auto const one_sided = refine_kway(g.view(), start);
  CHECK(one_sided.within_limits);
  for (auto& part : start.of) part = part_id{static_cast<std::uint32_t>(random.below(5))};
  auto const better = refine_kway(g.view(), start);
  CHECK(better.within_limits);
  CHECK(better.cut < cut_of(g, start.of));
  CHECK(refine_kway(g.view(), better).cut <= better.cut);
}

TEST_CASE("partition_kway, refine_kway: reject invalid graphs, options and starts and name the place") {
  weighted_graph_arrays one_sided = path_of(4);
  one_sided.targets[0] = 3;
  CHECK_THROWS_AS(partition_kway(one_sided.view(), 2), adjacency_error);
  auto g = path_of(4);
  g.node_weight = {1, -1, 1, 1};
  CHECK_THROWS_AS(partition_kway(g.view(), 2), adjacency_error);
  g.node_weight.assign(4, std::numeric_limits<std::int64_t>::max() / 2);
  CHECK_THROWS_AS(partition_kway(g.view(), 2), adjacency_error);
  auto const path = path_of(4);
  auto const fault = [&](kway_options const& o, std::uint32_t k) {
    try {
      partition_kway(path.view(), k, o);
    } catch (kway_option_error const& e) {
      return e.witness;
    }
    return kway_option_fault{};
  };
  using enum invalid_kway_option;
  CHECK(fault({}, 0) == kway_option_fault{parts, 0});
  CHECK(fault({.imbalance = -0.1}, 2) == kway_option_fault{imbalance, 0});
  CHECK(fault({.imbalance = {0.1, 0.1, 0.1}}, 2) == kway_option_fault{imbalance, 3});
  CHECK(fault({.share = {1.0, std::numeric_limits<double>::quiet_NaN()}}, 2) == kway_option_fault{share, 1});
  CHECK(fault({.share = {0.0, 0.0}}, 2) == kway_option_fault{share, 0});
  CHECK(fault({.fixed = {no_part}}, 2) == kway_option_fault{fixed_length, 1});
  CHECK(fault({.fixed = {no_part, part_id{2}, no_part, no_part}}, 2) == kway_option_fault{fixed_part, 1});
  CHECK_THROWS_WITH(
      partition_kway(path.view(), 2, {.fixed = {no_part}}),
      "k-way partition: `fixed` has 1 entries for a graph of 4 nodes: give one entry per node, or none");
  CHECK_THROWS_AS(refine_kway(path.view(), {.of = {}, .parts = 2}), kway_start_error);
  CHECK_THROWS_AS(refine_kway(path.view(), {.of = {4, no_part}, .parts = 2}), kway_start_error);
}
