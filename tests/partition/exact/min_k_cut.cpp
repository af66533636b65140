// SPDX-License-Identifier: MIT
#include "cleave/partition/exact/min_k_cut.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

namespace {

using cleave::min_cut_options;
using cleave::min_k_cut;
using cleave::testing::error_text;
using cleave::testing::rng;

/// The graph of a matrix of edge weights; 0 means no edge.
template <class EdgeWeight>
cleave::adjacency<std::uint32_t, int, EdgeWeight> graph_of(std::vector<std::vector<EdgeWeight>> const& edge,
                                                           std::vector<int> weight = {}) {
  cleave::adjacency<std::uint32_t, int, EdgeWeight> g;
  for (auto const& row : edge) {
    for (std::uint32_t v = 0; v < row.size(); ++v)
      if (row[v] != 0) g.targets.push_back(v), g.edge_weight.push_back(row[v]);
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  g.node_weight = std::move(weight);
  return g;
}

/// A ring of `n` nodes.
std::vector<std::vector<int>> ring(std::size_t n) {
  std::vector<std::vector<int>> edge(n, std::vector<int>(n));
  for (std::size_t u = 0; u < n; ++u) edge[u][(u + 1) % n] = edge[(u + 1) % n][u] = 1;
  return edge;
}

/// The least cut over all k^n assignments; -1 if no assignment is allowed.
int brute_force(std::vector<std::vector<int>> const& edge, std::vector<int> const& weight, std::uint32_t k,
                int most) {
  auto const n = edge.size();
  std::vector<std::uint32_t> part(n);
  int best = -1;
  for (;;) {
    std::vector<int> sum(k);
    std::vector<std::size_t> count(k);
    int cut = 0;
    for (std::size_t u = 0; u < n; ++u) {
      sum[part[u]] += weight[u];
      ++count[part[u]];
      for (std::size_t v = 0; v < u; ++v)
        if (part[u] != part[v]) cut += edge[u][v];
    }
    auto const used = static_cast<std::size_t>(std::ranges::count_if(count, [](auto c) { return c > 0; }));
    bool const allowed = std::ranges::max(sum) <= most && used == std::min<std::size_t>(k, n);
    if (allowed && (best < 0 || cut < best)) best = cut;
    std::size_t u = 0;
    while (u < n && ++part[u] == k) part[u++] = 0;
    if (u == n) return best;
  }
}

}  // namespace

TEST_CASE("min_k_cut: equals the best of all assignments on small random graphs") {
  rng r(1);
  for (int i = 0; i < 250; ++i) {
    CAPTURE(i);
    auto const n = 1 + r.below(7);
    auto const k = 1 + static_cast<std::uint32_t>(r.below(4));
    std::vector<std::vector<int>> edge(n, std::vector<int>(n));
    std::vector<int> weight;
    for (std::size_t u = 0; u < n; ++u) {
      weight.push_back(static_cast<int>(r.below(4)));
      for (std::size_t v = 0; v < u; ++v)
        if (r.one_in(2)) edge[u][v] = edge[v][u] = static_cast<int>(r.below(9));
    }
    int all = 0;
    for (int const w : weight) all += w;
    int const share = (all + static_cast<int>(k) - 1) / static_cast<int>(k);
    int const most = std::max(share + share / 2, *std::ranges::max_element(weight));
    int const expected = brute_force(edge, weight, k, most);
    auto const g = graph_of(edge, weight);
    if (expected < 0) {
      REQUIRE_THROWS_AS(min_k_cut(g.view(), k, {.imbalance = 0.5}), cleave::infeasible_error);
      continue;
    }
    auto const p = min_k_cut(g.view(), k, {.imbalance = 0.5});
    REQUIRE(p.cut == expected);
    REQUIRE(p.proved);
    REQUIRE(p.bound == p.cut);
    REQUIRE(p.parts == k);
    int cut = 0;
    for (std::size_t u = 0; u < n; ++u)
      for (std::size_t v = 0; v < u; ++v)
        if (p.of[u] != p.of[v]) cut += edge[u][v];
    REQUIRE(cut == p.cut);
  }
}

TEST_CASE("min_k_cut: cuts a ring into k parts at k edges") {
  for (std::uint32_t const k : {2u, 3u, 4u}) {
    auto const g = graph_of(ring(24));
    auto const p = min_k_cut(g.view(), k, {.imbalance = 0});
    REQUIRE(p.cut == static_cast<int>(k));
    REQUIRE(p.proved);
  }
  REQUIRE(min_k_cut(graph_of(ring(12)).view(), 1).cut == 0);
}

TEST_CASE("min_k_cut: accepts fractional weights and ignores edges from a node to itself") {
  std::vector<std::vector<double>> edge{{9, 0.25, 0, 0}, {0.25, 0, 1.5, 0}, {0, 1.5, 0, 0.5}, {0, 0, 0.5, 9}};
  auto const p = min_k_cut(graph_of(edge).view(), 2, {.imbalance = 0.5});
  REQUIRE(p.cut == 0.25);
  REQUIRE(p.of[1] == p.of[3]);
}

TEST_CASE("min_k_cut: an interrupted search brackets the optimum between its bound and its cut") {
  auto const g = graph_of(ring(24));
  std::size_t unproved = 0;
  for (std::size_t const steps : {2'000u, 5'000u, 20'000u}) {
    auto const p = min_k_cut(g.view(), 4, {.imbalance = 0.2, .most_steps = steps});
    REQUIRE(p.bound <= 4);
    REQUIRE(p.cut >= 4);
    unproved += !p.proved;
  }
  REQUIRE(unproved > 0);
}

TEST_CASE("min_k_cut: accepts more parts than nodes and no nodes, and rejects invalid input") {
  auto const three = graph_of<int>({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});
  auto const p = min_k_cut(three.view(), 8);
  REQUIRE(p.cut == 2);
  REQUIRE(p.parts == 8);
  REQUIRE(min_k_cut(graph_of<int>({}).view(), 3).proved);
  REQUIRE(error_text([&] { min_k_cut(three.view(), 0); }) ==
          "min_k_cut: 0 parts are requested: expected at least 1");
  REQUIRE(error_text([&] { min_k_cut(three.view(), 2, {.imbalance = -1}); }) ==
          "min_k_cut: the imbalance is -1.000000: expected a number of at least 0");
  REQUIRE(error_text([&] {
            min_k_cut(three.view(), 2, {.most_steps = 3});
          }).find("steps, the search found no partition into 2 parts of weight at most 2: ") !=
          std::string::npos);
  auto one_sided = three;
  one_sided.targets[0] = 2;
  REQUIRE_THROWS_AS(min_k_cut(one_sided.view(), 2), cleave::detail::adjacency_error);
}

TEST_CASE("min_k_cut: rejects node weights that fit into no balanced parts") {
  auto const g = graph_of<int>(
      {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}}, {3, 3, 2, 2, 2});
  REQUIRE(min_k_cut(g.view(), 2, {.imbalance = 0}).cut == 0);
  auto const h = graph_of<int>({{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}, {3, 3, 3});
  REQUIRE(error_text([&] { min_k_cut(h.view(), 2, {.imbalance = 0}); }) ==
          "there is no partition into 2 parts of weight at most 5: allow more imbalance");
}
