// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/kway/kway.hpp"
#include "cleave/partition/kway/machine.hpp"
#include "cleave/partition/kway/map_kway.hpp"
#include "cleave/partition/verify/verify_partition.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"

using namespace cleave;
using cleave::testing::rng;

namespace {

using graph = adjacency<std::uint32_t>;

graph graph_of(std::uint32_t nodes, std::vector<std::pair<std::uint32_t, std::uint32_t>> const& edges) {
  std::vector<std::vector<std::uint32_t>> rows(nodes);
  for (auto const& [a, b] : edges) rows[a].push_back(b), rows[b].push_back(a);
  graph g;
  for (auto const& row : rows) {
    g.targets.insert(g.targets.end(), row.begin(), row.end());
    g.offsets.push_back(static_cast<std::uint32_t>(g.targets.size()));
  }
  return g;
}

graph grid(std::uint32_t side) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t n = 0; n < side * side; ++n) {
    if (n % side + 1 < side) edges.emplace_back(n, n + 1);
    if (n / side + 1 < side) edges.emplace_back(n, n + side);
  }
  return graph_of(side * side, edges);
}

std::vector<double> random_weights(rng& random, std::size_t nodes, std::uint64_t most) {
  std::vector<double> w(nodes);
  for (auto& x : w) x = static_cast<double>(random.below(most + 1));
  return w;
}

/// Returns the weight of each part, added up from the nodes.
std::vector<double> sums(partition const& p, std::vector<double> const& weight) {
  std::vector<double> sum(p.parts, 0);
  for (std::size_t n = 0; n < p.of.size(); ++n) sum[index(p.of[n])] += weight[n];
  return sum;
}

std::int64_t cut_of(graph const& g, std::vector<part_id> const& of) {
  std::int64_t twice = 0;
  for (std::size_t n = 0; n < of.size(); ++n)
    for (auto const to : g.view().neighbours(n)) twice += of[n] != of[to];
  return twice / 2;
}

/// Returns the limit of whole weights with equal shares, from its definition.
double limit_of(std::vector<double> const& weight, std::uint32_t parts, double imbalance) {
  double total = 0;
  for (auto const w : weight) total += w;
  auto const share = std::ceil(total / parts);
  return share + std::floor(imbalance * share);
}

/// Returns true if no part exceeds the limit, or is too heavy only because no part could hold the heaviest
/// node.
bool keeps(partition const& p, std::vector<double> const& weight, double imbalance) {
  auto const most = (std::max)(limit_of(weight, p.parts, imbalance), *std::ranges::max_element(weight));
  return std::ranges::all_of(sums(p, weight), [&](double sum) { return sum <= most; });
}

}  // namespace

TEST_CASE(
    "further_weights: on small graphs, limits are kept wherever brute force can, at a cut near the best") {
  rng random(1);
  int possible = 0, kept = 0;
  std::int64_t cut = 0, best_cut = 0;
  auto const rounds = static_cast<int>(testing::cases(60, 150));
  for (int round = 0; round < rounds; ++round) {
    auto const nodes = 5 + static_cast<std::uint32_t>(random.below(4)),
               k = 2 + static_cast<std::uint32_t>(round % 2);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    for (std::uint32_t a = 0; a < nodes; ++a)
      for (std::uint32_t b = a + 1; b < nodes; ++b)
        if (random.below(3) == 0) edges.emplace_back(a, b);
    auto g = graph_of(nodes, edges);
    kway_options o{.preset = static_cast<kway_preset>(round % 3), .imbalance = 0.2};
    std::vector<std::vector<double>> all{random_weights(random, nodes, 9)};
    for (auto const w : all[0]) g.node_weight.push_back(static_cast<std::int64_t>(w));
    g.edge_weight.assign(g.targets.size(), 1);
    for (std::size_t i = 0; i < 1 + random.below(2); ++i) {
      all.push_back(random_weights(random, nodes, 9));
      o.further_weights.push_back({all.back(), 0.2});
    }
    std::int64_t least = -1;
    std::size_t states = 1;
    for (std::uint32_t n = 0; n < nodes; ++n) states *= k;
    for (std::size_t state = 0; state < states; ++state) {
      partition p{.of = {}, .parts = k};
      for (std::size_t n = 0, rest = state; n < nodes; ++n, rest /= k)
        p.of.push_back(part_id{static_cast<std::uint32_t>(rest % k)});
      if (!std::ranges::all_of(all, [&](auto const& w) { return keeps(p, w, 0.2); })) continue;
      if (auto const c = cut_of(g, p.of); least < 0 || c < least) least = c;
    }
    auto const p = partition_kway(g.view(), k, o);
    CHECK(p.within_limits == std::ranges::all_of(all, [&](auto const& w) { return keeps(p, w, 0.2); }));
    CHECK(p.cut == cut_of(g, p.of));
    possible += least >= 0;
    if (!p.within_limits) continue;
    REQUIRE(least >= 0);
    CHECK(p.cut >= least);
    ++kept, cut += p.cut, best_cut += least;
  }
  CHECK(possible > rounds * 2 / 5);
  CHECK(kept >= possible * 95 / 100);
  CHECK(cut <= best_cut * 11 / 10);
}

TEST_CASE("further_weights: parts of a grid keep the limits of up to eight random weights") {
  rng random(2);
  auto const side = static_cast<std::uint32_t>(testing::cases(20, 40));
  auto const nodes = std::size_t{side} * side;
  auto const g = grid(side);
  for (std::size_t const weights : {1u, 2u, 7u}) {
    if (weights == 2 && !testing::all_cases()) continue;
    for (auto const preset : {kway_preset::fast, kway_preset::standard, kway_preset::quality}) {
      if (weights == 7 && preset == kway_preset::quality && !testing::all_cases()) continue;
      kway_options o{.preset = preset, .imbalance = 0.05, .threads = 2};
      for (std::size_t i = 0; i < weights; ++i)
        o.further_weights.push_back({random_weights(random, nodes, 19), 0.05});
      auto const p = partition_kway(g.view(), 8, o);
      CHECK(p.within_limits);
      CHECK(p.cut == cut_of(g, p.of));
      CHECK(p.imbalance <= 0.05 + 1e-12);
      REQUIRE(p.further.size() == weights);
      for (std::size_t i = 0; i < weights; ++i) {
        CHECK(keeps(p, o.further_weights[i].of, 0.05));
        CHECK(p.further[i].part_weights == sums(p, o.further_weights[i].of));
        CHECK(p.further[i].imbalance <= 0.05 + 1e-12);
      }
      o.threads = 1;
      CHECK(partition_kway(g.view(), 8, o).of == p.of);
    }
  }
}

TEST_CASE("further_weights: weights that differ from region to region are balanced") {
  auto const g = grid(32);
  kway_options o{.imbalance = 0.05};
  o.further_weights.assign(2, {std::vector<double>(1024, 0), 0.05});
  for (std::size_t n = 0; n < 1024; ++n) o.further_weights[n % 32 < 8 ? 0 : 1].of[n] = 1;  // left and right
  auto const p = partition_kway(g.view(), 4, o);
  CHECK(p.within_limits);
  CHECK(std::ranges::max(sums(p, o.further_weights[0].of)) <= 67);   // 256 / 4 = 64, plus 5 %
  CHECK(std::ranges::max(sums(p, o.further_weights[1].of)) <= 201);  // 768 / 4 = 192, plus 5 %
  auto const alone = partition_kway(g.view(), 4, {.imbalance = 0.05});
  CHECK(std::ranges::max(sums(alone, o.further_weights[0].of)) > 67);
}

TEST_CASE("further_weights: shares, fixed nodes, isolated nodes and connected parts hold") {
  rng random(3);
  auto g = grid(20);
  g.offsets.resize(431, g.offsets.back());  // 30 nodes without edges
  kway_options o{.imbalance = 0.1, .share = {1., 2., 1.}};
  o.further_weights = {{random_weights(random, 430, 9), 0.1, {1., 1., 2.}}};
  o.fixed.assign(430, no_part);
  for (std::size_t n = 0; n < 430; n += 43) o.fixed[n] = part_id{static_cast<std::uint32_t>(n / 43 % 3)};
  auto const p = partition_kway(g.view(), 3, o);
  CHECK(p.within_limits);
  for (std::size_t n = 0; n < 430; n += 43) CHECK(p.of[n] == o.fixed[n]);
  double total = 0;
  for (auto const w : o.further_weights[0].of) total += w;
  CHECK(sums(p, o.further_weights[0].of)[0] <= 1.1 * std::ceil(total / 4));
  CHECK(sums(p, o.further_weights[0].of)[2] <= 1.1 * std::ceil(total / 2));
  CHECK(sums(p, o.further_weights[0].of)[2] > total / 3);

  auto const whole = grid(20);
  kway_options joined{.imbalance = 0.3, .connected = true};
  joined.further_weights = {{random_weights(random, 400, 9), 0.3}};
  auto const q = partition_kway(whole.view(), 4, joined);
  CHECK(q.within_limits);
  CHECK(q.imbalance <= 0.3);
  CHECK(q.further[0].imbalance <= 0.3);
  CHECK(verify_partition(whole.view(), q, {.imbalance = 0.3, .connected = true}).sound());
}

TEST_CASE("further_weights: refine_kway brings all weights of a bad start within their limits") {
  rng random(4);
  auto const g = grid(30);
  kway_options o{.imbalance = 0.05};
  o.further_weights = {{random_weights(random, 900, 19), 0.05}, {random_weights(random, 900, 1), 0.1}};
  partition start{.of = std::vector<part_id>(900, part_id{0}), .parts = 6};
  auto const one_sided = refine_kway(g.view(), start, o);
  CHECK(one_sided.within_limits);
  for (auto& part : start.of) part = part_id{static_cast<std::uint32_t>(random.below(6))};
  auto const better = refine_kway(g.view(), start, o);
  CHECK(better.within_limits);
  CHECK(better.cut < cut_of(g, start.of));
}

TEST_CASE("further_weights: fractions, huge and tiny numbers, zeros and heavy nodes are taken") {
  rng random(5);
  auto const g = grid(16);
  kway_options o{.imbalance = 0.1};
  auto const base = random_weights(random, 256, 9);
  for (double const unit : {1e-300, 0.001, 1e290}) {
    auto scaled = base;
    for (auto& w : scaled) w *= unit;
    o.further_weights = {{scaled, 0.1}};
    auto const p = partition_kway(g.view(), 4, o);
    CHECK(p.within_limits);
    CHECK(p.further[0].imbalance <= 0.1 + 1e-9);
  }
  o.further_weights = {{std::vector<double>(256, 0), 0.1}};
  CHECK(partition_kway(g.view(), 4, o).within_limits);
  o.further_weights[0].of[7] = 100;  // one node has all of it
  auto const heavy = partition_kway(g.view(), 4, o);
  CHECK(heavy.within_limits);
  CHECK(heavy.further[0].imbalance == doctest::Approx(3));
}

TEST_CASE("further_weights: invalid weights are refused with their place") {
  auto const g = grid(2);
  auto const fault = [&](further_weight w, std::uint32_t k = 2) {
    try {
      partition_kway(g.view(), k, {.further_weights = {{{1, 1, 1, 1}}, std::move(w)}});
    } catch (detail::kway_option_error const& e) {
      return e.witness;
    }
    return detail::kway_option_fault{};
  };
  using enum detail::invalid_kway_option;
  using found = detail::kway_option_fault;
  auto const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(fault({{1, 2}}) == found{further_length, 2, 1});
  CHECK(fault({{1, 2, -1, 1}}) == found{further_weight, 2, 1});
  CHECK(fault({{1, 2, 1, nan}}) == found{further_weight, 3, 1});
  CHECK(fault({{1e308, 1e308, 1, 1}}) == found{further_total, 4, 1});
  CHECK(fault({{1, 1, 1, 1}, -1.}) == found{further_imbalance, 0, 1});
  CHECK(fault({{1, 1, 1, 1}, {0.1, 0.1, 0.1}}) == found{further_imbalance, 3, 1});
  CHECK(fault({{1, 1, 1, 1}, 0.1, {1., nan}}) == found{further_share, 1, 1});
  CHECK(fault({{1, 1, 1, 1}, 0.1, {0., 0.}}) == found{further_share, 0, 1});
  CHECK_THROWS_WITH(
      partition_kway(g.view(), 2, {.further_weights = {{{1, 2}}}}),
      "k-way partition: further weight 0 has 2 entries for a graph of 4 nodes: give one entry per "
      "node");
  CHECK_THROWS_AS(map_kway(g.view(), machine::hierarchy({2}, {1}), {.further_weights = {{{1, 1, 1, 1}}}}),
                  detail::kway_option_error);
}
