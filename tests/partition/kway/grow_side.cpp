// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/grow_side.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::growth;
using cleave::two_sides;
using cleave::testing::weighted_level;

two_sides grown(weighted_level const& g, std::vector<std::uint32_t> const& fixed, std::int64_t limit,
                growth how, std::uint64_t seed) {
  two_sides s;
  s.limit = {limit, limit};
  cleave::splitmix random(seed);
  auto const view = g.view();
  cleave::side_growing(view, fixed).grow(s, how, limit / 2, random);
  return s;
}

}  // namespace

TEST_CASE("grow side: weights, cut and fixed nodes are right, and the side is no heavier than it may be") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 300; ++i) {
    auto const most = std::size_t{1} << r.below(40);
    auto g = cleave::testing::random_strip(r, 2 + r.below(200), 1 + r.below(12), most);
    if (i % 5 == 0) g.node_weight.assign(g.node_weight.size(), 0);
    std::int64_t total = 0, fixed_weight = 0;
    std::vector<std::uint32_t> fixed(i % 2 == 0 ? 0 : g.node_weight.size(), cleave::free_node);
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
    cleave::weigh(view, again);
    REQUIRE(s.cut == again.cut);
    REQUIRE(s.weight == again.weight);
    REQUIRE(s.weight[0] <= limit);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::free_node || s.of[n] == fixed[n]));
  }
}

TEST_CASE("grow side: of nodes that cost alike, anywhere, the heavy ones come first") {
  // Ten nodes, all neighbours, each with ten leaves: half of these weigh 10, the others 1.
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
