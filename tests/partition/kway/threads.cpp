// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/kway/kway.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::rng;

namespace {

using arrays = adjacency<std::uint32_t, std::int64_t>;
using edge_list = std::vector<std::pair<std::uint32_t, std::uint32_t>>;

arrays rows_of(std::uint32_t nodes, edge_list const& edges) {
  auto g = testing::level_of(nodes, edges);
  return {std::move(g.offsets), std::move(g.targets), {}, {}};
}

/// A grid with diagonals, numbered row by row: neighbours are near each other in memory.
arrays mesh(std::uint32_t side) {
  edge_list edges;
  for (std::uint32_t r = 0; r + 1 < side; ++r)
    for (std::uint32_t c = 0; c + 1 < side; ++c) {
      auto const n = r * side + c;
      edges.emplace_back(n, n + 1);
      edges.emplace_back(n, n + side);
      if ((r + c) % 3 == 0) edges.emplace_back(n, n + side + 1);
    }
  return rows_of(side * side, edges);
}

/// The same mesh with shuffled nodes.
arrays shuffled_mesh(std::uint32_t side, rng& random) {
  auto const g = mesh(side);
  std::vector<std::uint32_t> name(side * side);
  for (std::uint32_t n = 0; n < name.size(); ++n) name[n] = n;
  random.shuffle(name);
  edge_list edges;
  for (std::uint32_t n = 0; n < name.size(); ++n)
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      if (g.targets[e] > n) edges.emplace_back(name[n], name[g.targets[e]]);
  return rows_of(side * side, edges);
}

/// A few nodes have most of the edges, and some have no edges.
arrays skewed(std::uint32_t nodes, std::uint32_t edges, rng& random) {
  edge_list list;
  auto const node = [&] {
    auto n = random.below(nodes);
    for (int i = 0; i < 3; ++i) n = std::min(n, random.below(nodes));
    return static_cast<std::uint32_t>(n);
  };
  for (std::uint32_t i = 0; i < edges; ++i)
    if (auto const a = node(), b = node(); a != b) list.emplace_back(a, b);
  return rows_of(nodes, list);
}

/// Adds weights to nodes and edges; some of them are 0.
arrays weighted(arrays g, rng& random) {
  auto const nodes = static_cast<std::uint32_t>(g.offsets.size() - 1);
  for (std::uint32_t n = 0; n < nodes; ++n)
    g.node_weight.push_back(static_cast<std::int64_t>(random.below(6)));
  auto const salt = random.next();
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      g.edge_weight.push_back(static_cast<std::int64_t>(((n ^ g.targets[e]) * 2654435761u ^ salt) % 7));
  return g;
}

}  // namespace

TEST_CASE("partition_kway: meshes, skewed and weighted graphs give equal parts with 1, 2, 3 and 8 threads") {
  rng random(8);
  std::vector<std::pair<std::string, arrays>> graphs;
  auto const side = static_cast<std::uint32_t>(testing::cases(130, 160)),
             nodes = static_cast<std::uint32_t>(testing::cases(17'000, 20'000));
  graphs.emplace_back("mesh", mesh(190));
  graphs.emplace_back("shuffled mesh", shuffled_mesh(side, random));
  graphs.emplace_back("skewed", skewed(nodes, nodes / 2 * 5, random));
  graphs.emplace_back("weighted mesh", weighted(mesh(side), random));
  std::size_t number = 0;
  for (auto const& [name, g] : graphs) {
    bool const odd = ++number % 2 != 0;
    for (auto const preset : {kway_preset::fast, kway_preset::standard}) {
      if ((preset == kway_preset::fast) != odd && !testing::all_cases()) continue;
      CAPTURE(name);
      kway_options o{.preset = preset, .seed = random.next()};
      auto const k = static_cast<std::uint32_t>(2 + random.below(30));
      auto const one = partition_kway(g.view(), k, o);
      CHECK(one.within_limits);
      for (std::uint32_t const threads : {2u, 3u, 8u}) {
        if (threads != 3 && !testing::all_cases()) continue;
        o.threads = threads;
        auto const more = partition_kway(g.view(), k, o);
        CHECK(more.of == one.of);
        CHECK(more.cut == one.cut);
        CHECK(more.part_weights == one.part_weights);
      }
    }
  }
}

TEST_CASE(
    "partition_kway, refine_kway: graphs with fixed nodes give equal parts with 1, 2, 3 and 8 threads") {
  rng random(9);
  auto const g = mesh(150);
  std::vector<part_id> fixed(g.view().nodes(), no_part);
  for (auto& part : fixed)
    if (random.below(50) == 0) part = part_id{static_cast<std::uint32_t>(random.below(5))};
  kway_options o{.preset = kway_preset::fast, .imbalance = 0.1, .fixed = fixed};
  auto const one = partition_kway(g.view(), 5, o);
  partition rough{.of = {}, .parts = 5};
  for (std::size_t n = 0; n < one.of.size(); ++n)
    rough.of.push_back(random.below(9) == 0 ? part_id{static_cast<std::uint32_t>(random.below(5))}
                                            : one.of[n]);
  auto const better = refine_kway(g.view(), rough, o);
  for (std::uint32_t const threads : {2u, 3u, 8u}) {
    if (threads != 2 && !testing::all_cases()) continue;
    o.threads = threads;
    CHECK(partition_kway(g.view(), 5, o).of == one.of);
    CHECK(refine_kway(g.view(), rough, o).of == better.of);
  }
}

TEST_CASE(
    "partition_kway: a graph clustered in several ranges gives equal parts with 1, 2, 3 and 8 threads") {
  auto const g = mesh(370);
  REQUIRE(g.view().nodes() > 1u << 17);
  kway_options o{.preset = kway_preset::fast};
  auto const one = partition_kway(g.view(), 3, o);
  for (std::uint32_t const threads : {2u, 3u, 8u}) {
    if (threads != 8 && !testing::all_cases()) continue;
    o.threads = threads;
    CHECK(partition_kway(g.view(), 3, o).of == one.of);
  }
}
