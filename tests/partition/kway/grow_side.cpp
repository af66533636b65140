// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/bisection.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::detail::growth;
using cleave::detail::two_sides;
using cleave::testing::weighted_level;

two_sides grown(weighted_level const& g, std::vector<std::uint32_t> const& fixed, std::int64_t limit,
                growth how, std::uint64_t seed) {
  two_sides s;
  s.limit = {limit, limit};
  cleave::splitmix random(seed);
  auto const view = g.view();
  cleave::detail::side_growing(view, fixed).grow(s, how, limit / 2, random);
  return s;
}

/// A plain version of growth::anywhere: recomputes all gains in each step and searches all nodes. Of the
/// nodes in the best bucket it takes the one that entered last.
std::vector<std::uint8_t> grown_plainly(weighted_level const& g, std::int64_t limit) {
  std::size_t const nodes = g.node_weight.size();
  std::int64_t total = 0;
  for (auto const w : g.node_weight) total += w;
  double const mean = std::max(1.0, static_cast<double>(total) / static_cast<double>(nodes));
  std::vector<std::uint8_t> side(nodes, 1), best;
  auto const bucket = [&](std::size_t n) {
    double gain = 0;
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e)
      gain += static_cast<double>(side[g.targets[e]] == 0 ? g.edge_weight[e] : -g.edge_weight[e]);
    auto const means = static_cast<double>(std::max<std::int64_t>(1, g.node_weight[n])) / mean;
    return cleave::detail::gain_buckets::bucket_of(static_cast<std::int64_t>(gain / means));
  };
  std::vector<std::size_t> waiting(nodes);  // in the order in which they entered their buckets
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::vector<std::uint16_t> in(nodes);
  for (auto const n : waiting) in[n] = bucket(n);
  std::int64_t weight = 0, best_cut = 0, best_distance = 0;
  while (weight < limit && !waiting.empty()) {
    auto next = waiting.begin();
    for (auto at = waiting.begin(); at != waiting.end(); ++at)
      if (in[*at] >= in[*next]) next = at;
    auto const n = *next;
    waiting.erase(next), in[n] = 0;
    if (weight + g.node_weight[n] > limit) {
      if (weight >= total - limit) break;
      continue;
    }
    side[n] = 0, weight += g.node_weight[n];
    for (auto e = g.offsets[n]; e < g.offsets[n + 1]; ++e) {
      auto const other = g.targets[e];
      if (side[other] == 0 || bucket(other) == in[other]) continue;
      in[other] = bucket(other);
      std::erase(waiting, other), waiting.push_back(other);
    }
    if (weight < total - limit) continue;
    std::int64_t cut = 0;
    for (std::size_t a = 0; a < nodes; ++a)
      for (auto e = g.offsets[a]; e < g.offsets[a + 1]; ++e)
        if (side[a] == 0 && side[g.targets[e]] == 1) cut += g.edge_weight[e];
    auto const distance = std::abs(weight - limit / 2);
    if (best.empty() || cut < best_cut || (cut == best_cut && distance < best_distance))
      best = side, best_cut = cut, best_distance = distance;
  }
  return best.empty() ? side : best;
}

}  // namespace

TEST_CASE("side_growing: growth::anywhere equals a plain search over all nodes") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 300; ++i) {
    auto const most = std::size_t{1} << r.below(30);
    auto const g = cleave::testing::random_strip(r, 2 + r.below(60), 1 + r.below(8), most);
    std::int64_t total = 0;
    for (auto const w : g.node_weight) total += w;
    auto const limit = total / 2 + static_cast<std::int64_t>(r.below(most));
    CHECK(grown(g, {}, limit, growth::anywhere, r.next()).of == grown_plainly(g, limit));
  }
}

TEST_CASE("side_growing: weights and cut are right, fixed nodes stay and the limit holds") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 300; ++i) {
    auto const most = std::size_t{1} << r.below(40);
    auto g = cleave::testing::random_strip(r, 2 + r.below(200), 1 + r.below(12), most);
    if (i % 5 == 0) g.node_weight.assign(g.node_weight.size(), 0);
    std::int64_t total = 0, fixed_weight = 0;
    std::vector<std::uint32_t> fixed(i % 2 == 0 ? 0 : g.node_weight.size(), cleave::detail::no_block);
    for (std::size_t n = 0; n < g.node_weight.size(); ++n) total += g.node_weight[n];
    for (std::size_t n = 0; n < fixed.size(); ++n) {
      if (!r.one_in(10)) continue;
      fixed[n] = static_cast<std::uint32_t>(r.below(2));
      if (fixed[n] == 0) fixed_weight += g.node_weight[n];
    }
    auto const limit = std::max(fixed_weight, total / 2 + static_cast<std::int64_t>(r.below(most)));
    auto const how = i % 3 == 0 ? growth::around_a_node : growth::anywhere;
    auto const s = grown(g, fixed, limit, how, r.next());
    two_sides again = s;
    auto const view = g.view();
    cleave::detail::weigh(view, again);
    REQUIRE(s.cut == again.cut);
    REQUIRE(s.weight == again.weight);
    REQUIRE(s.weight[0] <= limit);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::detail::no_block || s.of[n] == fixed[n]));
  }
}

TEST_CASE("side_growing: growth::anywhere takes the heavier of equally costly nodes first") {
  // A clique of ten nodes with ten leaves each: half of the leaves weigh 10, the others 1.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t core = 0; core < 10; ++core) {
    for (std::uint32_t other = 0; other < core; ++other) edges.emplace_back(core, other);
    for (std::uint32_t leaf = 0; leaf < 10; ++leaf) edges.emplace_back(core, 10 + 10 * core + leaf);
  }
  auto g = cleave::testing::level_of(110, edges);
  for (std::size_t leaf = 0; leaf < 100; leaf += 2) g.node_weight[10 + leaf] = 10;
  auto const s = grown(g, {}, 280, growth::anywhere, 1);  // 560 in all
  CHECK(s.weight[0] == 280);
  CHECK(s.cut == 28);
}
