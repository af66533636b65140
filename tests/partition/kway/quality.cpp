// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/quality.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"
#include "support/rng.hpp"
#include "support/weighted_level.hpp"

namespace {

using cleave::testing::weighted_level;

std::vector<std::int64_t> limits(weighted_level const& g, std::uint32_t k, double slack) {
  std::int64_t total = 0;
  for (auto const w : g.node_weight) total += w;
  auto const share = (total + k - 1) / k;
  return std::vector<std::int64_t>(k, static_cast<std::int64_t>(static_cast<double>(share) * slack));
}

cleave::level_parts quality_parts(weighted_level const& g, std::vector<std::int64_t> const& limit,
                                  std::vector<std::uint32_t> const& fixed, std::uint32_t threads,
                                  std::uint32_t cycles) {
  auto const view = g.view();
  auto effort = cleave::quality_effort_of(view);
  effort.cycles = cycles;
  effort.matched.least_nodes = effort.labelled.least_nodes = 60;
  cleave::thread_team const team(threads);
  return cleave::quality_kway(limit, effort, 1, team, nullptr).parts(view, fixed);
}

}  // namespace

TEST_CASE("quality: parts keep their limits and what is fixed, with and without cycles") {
  cleave::testing::rng r(1);
  for (int i = 0; i < 12; ++i) {
    auto const g = cleave::testing::random_strip(r, 100 + r.below(500), 1 + r.below(20), 1 + r.below(2));
    auto const k = static_cast<std::uint32_t>(2 + r.below(5));
    std::vector<std::uint32_t> fixed;
    if (i % 2 != 0) {
      fixed.assign(g.node_weight.size(), cleave::free_node);
      for (std::uint32_t part = 0; part < k; ++part) fixed[r.below(fixed.size())] = part;
    }
    auto const p = quality_parts(g, limits(g, k, 1.1), fixed, 1, i % 3 == 0 ? 1 : 0);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < k; ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::free_node || p.of[n] == fixed[n]));
  }
}

TEST_CASE("quality: improving any parts never makes the cut larger") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 12; ++i) {
    auto const g = cleave::testing::random_strip(r, 50 + r.below(300), 1 + r.below(12), 2);
    auto p = cleave::testing::random_parts(r, g, 3);
    auto const before = g.cut(p.of);
    auto const view = g.view();
    cleave::thread_team const team(1);
    auto effort = cleave::quality_effort_of(view);
    effort.labelled.least_nodes = 30;
    cleave::quality_kway(p.limit, effort, 1, team, nullptr).improve(view, {}, p);
    REQUIRE(g.cut(p.of) <= before);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < 3; ++part) REQUIRE(p.weight[part] <= p.limit[part]);
  }
}

TEST_CASE("quality: the same for any number of threads") {
  cleave::testing::rng r(3);
  auto const g = cleave::testing::random_strip(r, 2000, 40, 2);
  auto const one = quality_parts(g, limits(g, 7, 1.03), {}, 1, 1);
  auto const three = quality_parts(g, limits(g, 7, 1.03), {}, 3, 1);
  CHECK(one.of == three.of);
}
