// SPDX-License-Identifier: MIT
#include "cleave/partition/kway/flow_refinement.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cleave/partition/kway/level_graph.hpp"
#include "cleave/partition/kway/team.hpp"
#include "support/rng.hpp"

namespace {

using level = cleave::level_view<std::int64_t, cleave::weighing::given>;

struct weighted_level {
  std::vector<std::uint32_t> first{0}, head;
  std::vector<std::int64_t> node_weight, arc_weight;

  level view() const {
    return {static_cast<std::uint32_t>(node_weight.size()), first.data(), head.data(), node_weight.data(),
            arc_weight.data()};
  }
  std::int64_t cut(std::vector<std::uint32_t> const& of) const {
    std::int64_t twice = 0;
    for (std::uint32_t n = 0; n < node_weight.size(); ++n)
      for (auto a = first[n]; a < first[n + 1]; ++a) twice += of[n] != of[head[a]] ? arc_weight[a] : 0;
    return twice / 2;
  }
};

/// A strip of a grid, `rows` nodes high, with random weights below `most`, some edges left out and some
/// added.
weighted_level random_strip(cleave::testing::rng& r, std::size_t nodes, std::size_t rows, std::size_t most) {
  std::vector<std::vector<std::pair<std::uint32_t, std::int64_t>>> row(nodes);
  auto const join = [&](std::size_t u, std::size_t v) {
    if (u == v || u >= nodes || v >= nodes) return;
    auto const weight = static_cast<std::int64_t>(1 + r.below(most));
    row[u].emplace_back(v, weight), row[v].emplace_back(u, weight);
  };
  for (std::size_t n = 0; n < nodes; ++n) {
    if (!r.one_in(10)) join(n, n + rows);
    if ((n + 1) % rows != 0 && !r.one_in(10)) join(n, n + 1);
    if (r.one_in(20)) join(n, r.below(nodes));
  }
  weighted_level g;
  for (auto const& list : row) {
    for (auto const& [to, weight] : list) g.head.push_back(to), g.arc_weight.push_back(weight);
    g.first.push_back(static_cast<std::uint32_t>(g.head.size()));
    g.node_weight.push_back(static_cast<std::int64_t>(1 + r.below(most)));
  }
  return g;
}

cleave::level_parts random_parts(cleave::testing::rng& r, weighted_level const& g, std::uint32_t k) {
  cleave::level_parts p;
  p.weight.assign(k, 0);
  for (auto const weight : g.node_weight) {
    p.of.push_back(static_cast<std::uint32_t>(r.below(k)));
    p.weight[p.of.back()] += weight;
  }
  for (auto const weight : p.weight) p.limit.push_back(weight + static_cast<std::int64_t>(r.below(20)));
  return p;
}

std::vector<std::int64_t> weights_of(weighted_level const& g, cleave::level_parts const& p) {
  std::vector<std::int64_t> sums(p.parts());
  for (std::size_t n = 0; n < p.of.size(); ++n) sums[p.of[n]] += g.node_weight[n];
  return sums;
}

}  // namespace

TEST_CASE("flow refinement: the cut decreases by what it says, limits hold, fixed nodes stay") {
  cleave::testing::rng r(1);
  int better = 0;
  for (int i = 0; i < 200; ++i) {
    auto const g = random_strip(r, 2 + r.below(60), 1 + r.below(6), 1 + r.below(5));
    auto p = random_parts(r, g, static_cast<std::uint32_t>(2 + r.below(4)));
    std::vector<std::uint32_t> fixed;
    if (r.one_in(2))
      for (auto const part : p.of) fixed.push_back(r.one_in(3) ? part : cleave::free_node);
    auto const before = g.cut(p.of);
    auto const view = g.view();
    auto const gain = cleave::refine_by_flows(view, p, fixed, {}, cleave::thread_team(1));
    REQUIRE(gain >= 0);
    REQUIRE(g.cut(p.of) == before - gain);
    REQUIRE(p.weight == weights_of(g, p));
    for (std::uint32_t part = 0; part < p.parts(); ++part) REQUIRE(p.weight[part] <= p.limit[part]);
    for (std::size_t n = 0; n < fixed.size(); ++n)
      REQUIRE((fixed[n] == cleave::free_node || p.of[n] == fixed[n]));
    better += gain > 0;
  }
  CHECK(better > 100);
}

TEST_CASE(
    "flow refinement: with room for everything in the strip, two parts end at a least cut between their "
    "cores") {
  cleave::testing::rng r(2);
  for (int i = 0; i < 60; ++i) {
    auto const g = random_strip(r, 4 + r.below(8), 2, 4);
    auto p = random_parts(r, g, 2);
    for (auto& limit : p.limit) limit = 1000;
    std::vector<std::uint32_t> fixed(p.of.size(), cleave::free_node);
    fixed[0] = p.of[0] = 0, fixed[1] = p.of[1] = 1;
    p.weight = weights_of(g, p);
    auto least = g.cut(p.of);
    for (std::uint32_t set = 0; set < 1u << p.of.size(); ++set) {
      if ((set & 3) != 2) continue;
      std::vector<std::uint32_t> of;
      for (std::size_t n = 0; n < p.of.size(); ++n) of.push_back(set >> n & 1);
      least = std::min(least, g.cut(of));
    }
    auto const view = g.view();
    cleave::refine_by_flows(view, p, fixed, {.width = {.steps = 100, .slack = 100}, .rounds = 20},
                            cleave::thread_team(1));
    REQUIRE(g.cut(p.of) == least);
  }
}

TEST_CASE("flow refinement: the same for any number of threads") {
  cleave::testing::rng r(3);
  auto const g = random_strip(r, 3000, 30, 3);
  auto const start = random_parts(r, g, 12);
  auto const view = g.view();
  auto one = start, three = start;
  cleave::refine_by_flows(view, one, {}, {}, cleave::thread_team(1));
  cleave::refine_by_flows(view, three, {}, {}, cleave::thread_team(3));
  CHECK(one.of == three.of);
  CHECK(g.cut(one.of) < g.cut(start.of));
}
