// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/coarsening.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cleave/partition/kway/detail/level.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::alike;
using cleave::testing::rng;

namespace {

struct level_arrays {
  std::vector<std::uint32_t> offsets{0}, targets;
  std::vector<std::int64_t> node_weight, edge_weight;

  std::uint32_t nodes() const { return static_cast<std::uint32_t>(offsets.size() - 1); }
  weighted_view weighted() const {
    return {nodes(), offsets.data(), targets.data(), node_weight.data(), edge_weight.data()};
  }
  weighted_view unit() const { return {nodes(), offsets.data(), targets.data(), nullptr, nullptr}; }
};

/// Most neighbours have near ids, some have far ones; some nodes have no neighbours.
level_arrays random_level(std::uint32_t nodes, rng& random) {
  std::vector<std::map<std::uint32_t, std::int64_t>> rows(nodes);
  for (std::uint32_t i = 0; i < 2 * nodes; ++i) {
    auto const a = static_cast<std::uint32_t>(random.below(nodes));
    auto const b = random.one_in(10)
                       ? static_cast<std::uint32_t>(random.below(nodes))
                       : std::min(nodes - 1, a + 1 + static_cast<std::uint32_t>(random.below(5)));
    if (a == b) continue;
    auto const w = static_cast<std::int64_t>(1 + random.below(9));
    rows[a][b] = rows[b][a] = w;
  }
  level_arrays g;
  for (auto const& row : rows) {
    for (auto const& [to, w] : row) {
      g.targets.push_back(to);
      g.edge_weight.push_back(w);
    }
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
    g.node_weight.push_back(static_cast<std::int64_t>(1 + random.below(4)));
  }
  return g;
}

void check_clusters(weighted_view const& g, clustering const& c, std::int64_t heaviest, std::uint32_t grain) {
  std::vector<std::int64_t> weight(c.clusters, 0);
  std::vector<std::uint32_t> lowest(c.clusters, no_block), highest(c.clusters, 0);
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    CHECK((c.of[n] == no_cluster) == (g.degree(n) == 0));
    if (c.of[n] == no_cluster) continue;
    weight[c.of[n]] += g.weight(n);
    lowest[c.of[n]] = std::min(lowest[c.of[n]], n);
    highest[c.of[n]] = n;
  }
  for (std::uint32_t i = 0; i < c.clusters; ++i) {
    REQUIRE(c.begin[i] < c.begin[i + 1]);
    CHECK(c.member[c.begin[i]] == lowest[i]);
    CHECK(lowest[i] / grain == highest[i] / grain);
    if (c.begin[i + 1] - c.begin[i] > 1) CHECK(weight[i] <= heaviest);
    for (auto at = c.begin[i]; at < c.begin[i + 1]; ++at) CHECK(c.of[c.member[at]] == i);
  }
}

void check_contraction(weighted_view const& g, clustering const& c, level_graph const& coarse) {
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> between, found;
  std::vector<std::int64_t> weight(c.clusters, 0);
  for (std::uint32_t n = 0; n < g.nodes; ++n) {
    if (c.of[n] == no_cluster) continue;
    weight[c.of[n]] += g.weight(n);
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      if (auto const to = c.of[g.targets[e]]; to != c.of[n]) between[{c.of[n], to}] += g.edge_weight(e);
  }
  auto const view = coarse.view();
  for (std::uint32_t n = 0; n < view.nodes; ++n) {
    CHECK(view.weight(n) == weight[n]);
    for (auto e = view.offsets[n]; e < view.offsets[n + 1]; ++e)
      CHECK(found.emplace(std::pair(n, view.targets[e]), view.edge_weight(e)).second);
  }
  CHECK(found == between);
}

void check_level(weighted_view const& g) {
  cluster_rules const rules{.heaviest = 9, .fixed = nullptr, .grain = 700};
  auto const clusters = [&](thread_team const& team) {
    return label_clustering<std::int64_t>(g, rules).clusters(2, team);
  };
  auto const one = clusters(thread_team(1));
  check_clusters(g, one, rules.heaviest, rules.grain);
  CHECK(one.clusters < g.nodes * 3 / 4);
  auto const above = contraction(g, one).graph(thread_team(1));
  check_contraction(g, one, above);
  CHECK(alike(above, contraction(g, one).graph(thread_team(1), weight_width::narrow)));
  CHECK(alike(above, contraction(g, one).graph(thread_team(1), weight_width::wide)));
  for (std::uint32_t const threads : {2u, 5u}) {
    auto const more = clusters(thread_team(threads));
    REQUIRE(std::equal(one.of.begin(), one.of.end(), more.of.begin()));
    CHECK(alike(above, contraction(g, more).graph(thread_team(threads))));
  }
}

}  // namespace

TEST_CASE("contraction: clusters obey their rules and edge weights add up, with any number of threads") {
  rng random(4);
  auto const g = random_level(3000, random);
  check_level(g.weighted());
  check_level(g.unit());
}

TEST_CASE("contraction: many clusters give the same graph with 1 and 3 threads") {
  rng random(9);
  auto const g = random_level(40000, random);
  cluster_rules const rules{.heaviest = 2, .fixed = nullptr};
  auto const c = label_clustering<std::int64_t>(g.unit(), rules).clusters(1, thread_team(1));
  REQUIRE(c.clusters >= 1u << 14);
  CHECK(
      alike(contraction(g.unit(), c).graph(thread_team(1)), contraction(g.unit(), c).graph(thread_team(3))));
}

TEST_CASE("contraction: keeps weights above 32 bits in 64 bits") {
  std::vector<std::uint32_t> const first{0, 1, 3, 5, 6}, head{1, 0, 2, 1, 3, 2};
  std::int64_t const w = std::int64_t{3} << 31;
  std::vector<std::int64_t> const nodes(4, w), arcs(6, w);
  weighted_view const g{4, first.data(), head.data(), nodes.data(), arcs.data()};
  CHECK(g.width() == weight_width::wide);
  clustering c;
  c.clusters = 2;
  for (auto* const array : {&c.of, &c.begin, &c.member}) *array = uninitialized_array<std::uint32_t>(4);
  for (std::uint32_t n = 0; n < 4; ++n) c.of[n] = n / 2, c.member[n] = n;
  for (std::uint32_t i = 0; i < 3; ++i) c.begin[i] = 2 * i;
  auto const coarse = contraction(g, c).graph(thread_team(1));
  CHECK(coarse.view().weight(1) == 2 * w);
  CHECK(coarse.view().edge_weight(0) == w);
  CHECK(coarse.view().width() == weight_width::wide);
}

TEST_CASE("label_clustering: no cluster holds nodes fixed to different parts") {
  rng random(7);
  for (int i = 0; i < 20; ++i) {
    auto const g = random_level(400, random);
    std::vector<std::uint32_t> fixed(g.unit().nodes, cleave::detail::no_block);
    for (auto& part : fixed)
      if (random.one_in(4)) part = static_cast<std::uint32_t>(random.below(3));
    cluster_rules const rules{.heaviest = 30, .fixed = &fixed};
    thread_team const team(1);
    auto const c = label_clustering<std::int64_t>(g.unit(), rules).clusters(3, team);
    std::vector<std::uint32_t> bound(c.clusters, cleave::detail::no_block);
    for (std::uint32_t n = 0; n < fixed.size(); ++n) {
      if (fixed[n] == cleave::detail::no_block || c.of[n] == cleave::detail::no_cluster) continue;
      REQUIRE((bound[c.of[n]] == cleave::detail::no_block || bound[c.of[n]] == fixed[n]));
      bound[c.of[n]] = fixed[n];
    }
  }
}
