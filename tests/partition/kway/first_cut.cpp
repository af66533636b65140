// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/detail/multilevel.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cleave/core/random.hpp"
#include "cleave/partition/kway/detail/config.hpp"
#include "cleave/partition/kway/detail/level.hpp"
#include "cleave/partition/kway/detail/refinement.hpp"
#include "cleave/partition/kway/detail/team.hpp"
#include "support/cases.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using namespace cleave;

using namespace cleave::detail;
using cleave::testing::weighted_level;

/// A ring in which each node is adjacent to the four before and after it; a few edges lead far away.
weighted_level thick_circle(testing::rng& r, std::uint32_t nodes) {
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
  for (std::uint32_t n = 0; n < nodes; ++n)
    for (std::uint32_t step = 1; step <= 4; ++step)
      edges.emplace_back(n, r.one_in(200) ? (n + 10 + r.below(nodes - 20)) % nodes : (n + step) % nodes);
  return testing::level_of(nodes, edges);
}

partitioned_level first_parts(weighted_level const& g, std::size_t parts, bool grow, std::uint64_t seed) {
  auto const each = static_cast<std::int64_t>(g.node_weight.size() / parts);
  std::vector<std::int64_t> const limit(parts, each + each / 20);
  kway_config config;
  config.grow_parts = grow;
  config.bisection.restarts = config.bisection.least_restarts = 4;
  splitmix random(seed);
  return first_cut(limit, config, edge_weight_of(g.view()), thread_team{}).parts(g.view(), {}, random);
}

}  // namespace

TEST_CASE("first_cut: centre growing cuts a long thin graph at most a quarter worse than bisection") {
  testing::rng r(1);
  for (std::uint64_t seed = 1; seed <= testing::cases(1, 5); ++seed) {
    auto const g = thick_circle(r, 4000);
    auto const round = first_parts(g, 16, true, seed);
    auto const bisected = first_parts(g, 16, false, seed);
    CHECK(cut_of(g.view(), round.of) <= cut_of(g.view(), bisected.of) * 5 / 4);
  }
}

TEST_CASE("first_cut: keeps round parts of a mesh, at most a quarter worse than bisection") {
  auto const g = testing::triangulated_squares(60);
  std::size_t kept = 0;
  for (std::uint64_t seed = 1; seed <= testing::cases(2, 5); ++seed) {
    auto const round = first_parts(g, 64, true, seed);
    auto const bricks = first_parts(g, 64, false, seed);
    kept += round.of != bricks.of;
    CHECK(cut_of(g.view(), round.of) <= cut_of(g.view(), bricks.of) * 5 / 4);
  }
  CHECK(kept > 0);
}

TEST_CASE("first_cut: every node gets a part, and part weights are the sums of their nodes") {
  testing::rng r(3);
  for (std::size_t i = 0; i < testing::cases(12, 100); ++i) {
    auto const g = testing::random_strip(r, 40 + r.below(200), 1 + r.below(12), 1 + r.below(5));
    bool const how = r.one_in(2);
    auto const p = first_parts(g, 2 + r.below(6), how, r.next());
    std::vector<std::int64_t> weight(p.weight.size(), 0);
    for (std::size_t n = 0; n < p.of.size(); ++n) {
      REQUIRE(p.of[n] < weight.size());
      weight[p.of[n]] += g.node_weight[n];
    }
    REQUIRE(p.of.size() == g.node_weight.size());
    REQUIRE(p.weight == weight);
  }
}
