// SPDX-License-Identifier: MIT
#include "cleave/partition/groups/alternation.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "cleave/partition/groups/capability.hpp"
#include "cleave/partition/model/validity.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using nodes = std::vector<std::size_t>;

namespace {

/// A chain of view, permute, add, permute, add, permute, permute.
snapshot_arrays chain_with_views() {
  testing::snapshot_builder b;
  auto v = b.input();
  for (int i = 0; i < 7; ++i) v = b.node(1, {v});
  b.output(v);
  return b.build();
}
std::vector<char> const views{1, 1, 0, 1, 0, 1, 1};

/// True if `n` is removed. Searches its group for work before and after `n`.
bool is_trivial_end(snapshot_arrays const& s, nodes const& group, std::vector<char> const& trivial,
                    std::size_t n) {
  if (!trivial[n]) return false;
  bool found[2] = {};
  for (int const side : {0, 1}) {
    nodes reached{n};
    for (std::size_t i = 0; i < reached.size(); ++i)
      for (auto const m : group) {
        bool next = false;
        auto const [from, to] = side == 0 ? std::pair(m, reached[i]) : std::pair(reached[i], m);
        for (auto const v : s.operands[to]) next |= s.producer[v] == from;
        if (!next || std::ranges::find(reached, m) != reached.end()) continue;
        found[side] |= !trivial[m];
        reached.push_back(m);
      }
  }
  return !found[0] || !found[1];
}

}  // namespace

TEST_CASE("trim_trivial_ends: removes views at both ends of a group and keeps those between work") {
  auto const s = chain_with_views();
  auto const trimmed = trim_trivial_ends<std::uint32_t>(s, {{4, {0, 1, 2, 3, 4, 5, 6}}}, views);
  CHECK(trimmed == std::vector<fusion_group>{{4, {2, 3, 4}}});
}

TEST_CASE("trim_trivial_ends: a group of views becomes empty, and work in other groups does not count") {
  auto const s = chain_with_views();
  auto const trimmed = trim_trivial_ends<std::uint32_t>(s, {{0, {0, 1}}, {1, {2}}, {2, {3}}}, views);
  CHECK(trimmed == std::vector<fusion_group>{{0, {}}, {1, {2}}, {2, {}}});
}

TEST_CASE(
    "trim_trivial_ends: removes exactly the trivial nodes without work on one side and closes no cycle") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    auto const s = testing::random_graph(random, {.nodes = 20, .reach = 1 + random.below(20)});
    std::vector<char> supported(s.nodes()), trivial(s.nodes());
    for (auto& x : supported) x = !random.one_in(4);
    for (auto& x : trivial) x = random.one_in(2);
    auto const groups = capability_groups(s, supported);
    auto const trimmed = trim_trivial_ends<std::uint32_t>(s, groups, trivial);
    CHECK(!find_cycle_between_parts(s, partition_of(trimmed, s.nodes())));
    for (std::size_t i = 0; i < groups.size(); ++i)
      for (auto const n : groups[i].nodes)
        CHECK((std::ranges::find(trimmed[i].nodes, n) == trimmed[i].nodes.end()) ==
              is_trivial_end(s, groups[i].nodes, trivial, n));
  }
}
