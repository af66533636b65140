// SPDX-License-Identifier: MIT
#include "cleave/partition/groups/capability.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/model/validity.hpp"
#include "support/archetype.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using nodes = std::vector<std::size_t>;
using groups = std::vector<fusion_group>;

namespace {

std::vector<nodes> nodes_of(groups const& list) {
  std::vector<nodes> all;
  for (auto const& g : list) all.push_back(g.nodes);
  return all;
}

bool is_legal(snapshot_arrays const& s, groups const& list) {
  return !find_cycle_between_parts(s, partition_of(list, s.nodes()));
}

std::vector<char> random_support(testing::rng& random, std::size_t count) {
  std::vector<char> supported(count);
  std::size_t const chance = 2 + random.below(4);
  for (auto& s : supported) s = !random.one_in(chance);
  return supported;
}

snapshot_arrays random_dag(testing::rng& random, std::size_t most) {
  std::size_t const count = 1 + random.below(most);
  return testing::random_graph(random, {.nodes = count,
                                        .most_operands = 1 + random.below(4),
                                        .reach = random.below(count + 1),
                                        .several_results = random.below(5),
                                        .ordered = random.below(5)});
}

/// True if each supported node is in exactly one group and no other node is in a group.
bool covers(groups const& list, std::vector<char> const& supported) {
  std::vector<char> met(supported.size());
  for (auto const& g : list)
    for (auto const n : g.nodes)
      if (std::exchange(met[n], 1)) return false;
  return met == supported;
}

groups merged(groups list, std::size_t a, std::size_t b) {
  list[a].nodes.insert(list[a].nodes.end(), list[b].nodes.begin(), list[b].nodes.end());
  list.erase(list.begin() + static_cast<std::ptrdiff_t>(b));
  return list;
}

bool has_value_between(snapshot_arrays const& s, fusion_group const& a, fusion_group const& b) {
  std::set<std::size_t> const in_a(a.nodes.begin(), a.nodes.end()), in_b(b.nodes.begin(), b.nodes.end());
  bool found = false;
  each_dependency(s, [&](std::size_t m, std::size_t n) {
    found |= (in_a.contains(m) && in_b.contains(n)) || (in_b.contains(m) && in_a.contains(n));
  });
  return found;
}

/// The fewest groups over all ways to divide the supported nodes into sets.
std::size_t fewest_by_search(snapshot_arrays const& s, std::vector<char> const& supported) {
  nodes list;
  for (std::size_t n = 0; n < s.nodes(); ++n)
    if (supported[n]) list.push_back(n);
  std::size_t best = list.size();
  std::vector<std::size_t> set_of(list.size());
  auto const search = [&](auto& self, std::size_t i, std::size_t sets) -> void {
    if (sets > best) return;
    if (i == list.size()) {
      groups all(sets);
      for (std::size_t k = 0; k < list.size(); ++k) all[set_of[k]].nodes.push_back(list[k]);
      if (is_legal(s, all)) best = sets;
      return;
    }
    for (set_of[i] = 0; set_of[i] <= sets; ++set_of[i]) self(self, i + 1, std::max(sets, set_of[i] + 1));
  };
  search(search, 0, 0);
  return best;
}

/// a -> relu -> b, and a separate c: nodes 0 to 3, all supported but relu.
snapshot_arrays parted_chain() {
  testing::snapshot_builder b;
  auto const a = b.node(1, {b.input()});
  auto const relu = b.node(1, {a});
  b.output(b.node(1, {relu}));
  b.output(b.node(1, {b.input()}));
  return b.build();
}
std::vector<char> const parted_support{1, 0, 1, 1};

}  // namespace

TEST_CASE("capability_groups: finds the fewest legal groups that cover all supported nodes") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    auto const s = random_dag(random, 8);
    auto const supported = random_support(random, s.nodes());
    auto const found = capability_groups(s, supported);
    CHECK(is_legal(s, found));
    CHECK(covers(found, supported));
    CHECK(found.size() == fewest_by_search(s, supported));
  }
}

TEST_CASE("capability_groups: both kinds of fusion need no more groups than the merge walk") {
  testing::rng random(2);
  for (int round = 0; round < 600; ++round) {
    auto const s = random_dag(random, round % 10 == 0 ? 120 : 30);
    auto const supported = random_support(random, s.nodes());
    for (auto const along : {fusion::horizontal, fusion::connected}) {
      auto const found = capability_groups(s, supported, {.along = along});
      auto const walked = capability_groups(s, supported, {.by = grouping::merge_walk, .along = along});
      CHECK(found.size() <= walked.size());
      CHECK(is_legal(s, found));
      CHECK(is_legal(s, walked));
      CHECK(covers(found, supported));
      CHECK(covers(walked, supported));
    }
  }
}

TEST_CASE("capability_groups: no two groups can be merged, and groups of connected fusion are connected") {
  testing::rng random(3);
  for (int round = 0; round < 300; ++round) {
    auto const s = random_dag(random, 14);
    auto const supported = random_support(random, s.nodes());
    for (auto const along : {fusion::horizontal, fusion::connected}) {
      auto const found = capability_groups(s, supported, {.along = along});
      for (std::size_t a = 0; a < found.size(); ++a)
        for (std::size_t b = a + 1; b < found.size(); ++b)
          if (along == fusion::horizontal || has_value_between(s, found[a], found[b]))
            CHECK(!is_legal(s, merged(found, a, b)));
      if (along == fusion::horizontal) continue;
      for (auto const& g : found) {  // values connect the first node with the whole group
        nodes reached{g.nodes.front()};
        for (std::size_t i = 0; i < reached.size(); ++i)
          for (auto const n : g.nodes)
            if (std::ranges::find(reached, n) == reached.end() &&
                has_value_between(s, {0, {reached[i]}}, {0, {n}}))
              reached.push_back(n);
        CHECK(reached.size() == g.nodes.size());
      }
    }
  }
}

TEST_CASE("capability_groups: fuses horizontally or along values") {
  auto const s = parted_chain();
  CHECK(nodes_of(capability_groups(s, parted_support)) == std::vector<nodes>{{0, 3}, {2}});
  CHECK(nodes_of(capability_groups(s, parted_support, {.along = fusion::connected})) ==
        std::vector<nodes>{{0}, {2}, {3}});
}

TEST_CASE("capability_groups: drops groups smaller than `least`, measured by the given sizes") {
  auto const s = parted_chain();
  CHECK(nodes_of(capability_groups(s, parted_support, {.least = 2})) == std::vector<nodes>{{0, 3}});
  CHECK(nodes_of(capability_groups(s, parted_support, {.size = {0, 1, 2, 1}, .least = 2})) ==
        std::vector<nodes>{{2}});
  CHECK(nodes_of(capability_groups(
            s, parted_support,
            {.by = grouping::merge_walk, .along = fusion::connected, .size = {1, 1, 2, 1}, .least = 2})) ==
        std::vector<nodes>{{2}});
}

TEST_CASE("capability_groups: sums of node sizes do not overflow") {
  auto const s = parted_chain();
  auto const most = std::numeric_limits<std::uint32_t>::max();
  auto const least = std::size_t{most} + 1;
  CHECK(nodes_of(capability_groups(s, parted_support, {.size = {most, 0, 1, 1}, .least = least})) ==
        std::vector<nodes>{{0, 3}});
}

TEST_CASE("capability_groups: asks the veto once per group and drops the groups it rejects") {
  // 0 -> 1 -> 2 -> 4 and 3 -> 4; all nodes but 1 are supported.
  testing::snapshot_builder b;
  auto const a = b.node(1, {b.input()});
  auto const middle = b.node(1, {b.node(1, {a})});
  auto const beside = b.node(1, {b.input()});       // 3
  auto const joined = b.node(1, {middle, beside});  // 4
  b.output(joined);
  auto const s = b.build();
  std::vector<char> const supported{1, 0, 1, 1, 1};
  CHECK(nodes_of(capability_groups(s, supported)) == std::vector<nodes>{{0, 3}, {2, 4}});
  std::vector<nodes> asked;
  auto const veto = [&](std::span<std::size_t const> group) {
    asked.emplace_back(group.begin(), group.end());
    return std::ranges::find(group, 2u) != group.end();
  };
  CHECK(nodes_of(capability_groups(s, supported, {}, veto)) == std::vector<nodes>{{0, 3}});
  CHECK(asked == std::vector<nodes>{{0, 3}, {2, 4}});
}

TEST_CASE("capability_groups: merges the rest after a veto, unless the veto rejects the union too") {
  testing::rng random(4);
  for (int round = 0; round < 300; ++round) {
    auto const s = random_dag(random, 9);
    auto const supported = random_support(random, s.nodes());
    auto const unwanted = random.below(s.nodes());
    bool unions = random.one_in(2);
    std::size_t calls = 0, first_round = capability_groups(s, supported).size();
    auto const found = capability_groups(s, supported, {}, [&](std::span<std::size_t const> group) {
      if (++calls > first_round) return !unions;
      return std::ranges::find(group, unwanted) != group.end();
    });
    CHECK(is_legal(s, found));
    std::vector<char> left(s.nodes());
    for (auto const& g : found)
      for (auto const n : g.nodes) left[n] = 1;
    CHECK(left[unwanted] == 0);
    if (unions) {
      for (std::size_t a = 0; a < found.size(); ++a)
        for (std::size_t b = a + 1; b < found.size(); ++b) CHECK(!is_legal(s, merged(found, a, b)));
    } else {
      CHECK(found.size() + (calls > 0 && supported[unwanted] ? 1 : 0) == first_round);
    }
  }
}

TEST_CASE("capability_groups: a `together` set is in one group or in no group") {
  auto const s = parted_chain();
  CHECK(nodes_of(capability_groups(s, parted_support, {.together = {{2, 3}}})) ==
        std::vector<nodes>{{0}, {2, 3}});
  CHECK(nodes_of(capability_groups(s, parted_support, {.together = {{1, 3}}})) ==
        std::vector<nodes>{{0}, {2}});
  CHECK(nodes_of(capability_groups(s, parted_support, {.together = {{0, 2}}})) == std::vector<nodes>{{3}});

  testing::rng random(5);
  for (int round = 0; round < 300; ++round) {
    auto const g = random_dag(random, 20);
    auto const supported = random_support(random, g.nodes());
    nodes const set{random.below(g.nodes()), random.below(g.nodes()), random.below(g.nodes())};
    for (auto const by : {grouping::fewest, grouping::merge_walk})
      for (auto const along : {fusion::horizontal, fusion::connected}) {
        auto const found = capability_groups(g, supported, {.by = by, .along = along, .together = {set}});
        CHECK(is_legal(g, found));
        auto const p = partition_of(found, g.nodes());
        bool const grouped = index(p.of[set[0]]) < found.size();
        for (auto const n : set) CHECK((grouped ? p.of[n] == p.of[set[0]] : index(p.of[n]) >= found.size()));
      }
  }
}

TEST_CASE("capability_groups: a projection joins the group that makes its tuple, supported or not") {
  testing::snapshot_builder b;
  auto const first = b.node(1, {b.input()});  // 0, not supported
  auto const item = b.node(1, {first});       // 1, a projection of it
  auto const second = b.node(1, {item});      // 2, supported
  b.output(b.node(1, {second}));              // 3, a projection of it
  auto const s = b.build();
  for (auto const by : {grouping::fewest, grouping::merge_walk})
    CHECK(nodes_of(capability_groups(s, {0, 1, 1, 0}, {.by = by, .projection = {0, 1, 0, 1}})) ==
          std::vector<nodes>{{2, 3}});
  b.output(first);  // the output is read as well, so its projection is an ordinary node
  auto const read = b.build();
  for (auto const by : {grouping::fewest, grouping::merge_walk})
    CHECK(nodes_of(capability_groups(read, {0, 1, 1, 0}, {.by = by, .projection = {0, 1, 0, 1}})) ==
          std::vector<nodes>{{1, 2, 3}});
}

TEST_CASE("capability_groups: with projections the default needs no more groups than the merge walk") {
  testing::rng random(6);
  for (int round = 0; round < 300; ++round) {
    auto const s = random_dag(random, 40);
    auto const supported = random_support(random, s.nodes());
    std::vector<char> projection(s.nodes());
    for (std::size_t n = 0; n < s.nodes(); ++n)
      projection[n] = s.operands[n].size() == 1 && s.after[n].empty() && random.one_in(2);
    for (auto const along : {fusion::horizontal, fusion::connected}) {
      auto const found = capability_groups(s, supported, {.along = along, .projection = projection});
      auto const walked = capability_groups(
          s, supported, {.by = grouping::merge_walk, .along = along, .projection = projection});
      CHECK(is_legal(s, found));
      CHECK(is_legal(s, walked));
      if (along == fusion::horizontal) CHECK(found.size() <= walked.size());
      std::set<std::size_t> ours, theirs;
      for (auto const& g : found) ours.insert(g.nodes.begin(), g.nodes.end());
      for (auto const& g : walked) theirs.insert(g.nodes.begin(), g.nodes.end());
      CHECK(ours == theirs);
    }
  }
}

TEST_CASE("capability_groups: groups replicable nodes like others and keeps groups of the graph whole") {
  testing::rng random(7);
  for (int round = 0; round < 200; ++round) {
    auto const s = testing::random_graph(random, {.nodes = 20, .replicable = 4, .tied = 5});
    auto const supported = random_support(random, s.nodes());
    auto const found = capability_groups(s, supported);
    auto plain = s;
    plain.replicable.clear();
    CHECK(is_legal(plain, found));
    auto const p = partition_of(found, s.nodes());
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      CHECK((index(p.of[n]) < found.size() ? supported[n] != 0 : true));
      if (index(p.of[n]) < found.size()) CHECK(p.of[n] == p.of[s.group[n]]);
    }
  }
}

TEST_CASE("capability_groups: effort 0 may give more groups, but all of them are legal") {
  testing::rng random(8);
  for (int round = 0; round < 100; ++round) {
    auto const s = random_dag(random, 60);
    auto const supported = random_support(random, s.nodes());
    auto const hasty = capability_groups(s, supported, {.along = fusion::connected, .effort = 0});
    CHECK(is_legal(s, hasty));
    CHECK(covers(hasty, supported));
    CHECK(hasty.size() >= capability_groups(s, supported, {.along = fusion::connected}).size());
  }
}

TEST_CASE("capability_groups: asks a user's graph once per node and needs only nodes and operands") {
  archetype::graph const g;
  std::size_t asked = 0, count = 0;
  for (auto n : g.nodes()) {
    (void)n;
    ++count;
  }
  auto const found = capability_groups(g, [&](node_t<archetype::graph>) {
    ++asked;
    return true;
  });
  CHECK(asked == count);
  CHECK(found.size() <= 1);
}

TEST_CASE("capability_groups: works with 64-bit indices") {
  testing::basic_snapshot_builder<std::uint64_t> b;
  auto const a = b.node(1, {b.input()});
  b.output(b.node(1, {b.node(1, {a})}));
  auto const s = b.build();
  CHECK(nodes_of(capability_groups(s, {1, 0, 1})) == std::vector<nodes>{{0}, {2}});
  CHECK(nodes_of(capability_groups(s, {1, 1, 1}, {.by = grouping::merge_walk})) ==
        std::vector<nodes>{{0, 1, 2}});
}

TEST_CASE("capability_groups: handles a node with 100,000 readers or operands") {
  std::uint32_t const many = 100'000;
  testing::snapshot_builder star, sink;
  auto const made = star.node(1, {star.input()});
  std::vector<std::uint32_t> read;
  for (std::uint32_t i = 0; i < many; ++i) {
    star.node(1, {made});
    read.push_back(sink.node(1, {sink.input()}));
  }
  sink.node(1, read);
  std::vector<char> supported(many + 1);
  for (std::uint32_t n = 0; n <= many; n += 2) supported[n] = 1;
  for (auto const& s : {star.build(), sink.build()}) {
    auto const found = capability_groups(s, supported, {.along = fusion::connected});
    CHECK(found.size() == 1);
    CHECK(found[0].nodes.size() == many / 2 + 1);
  }
}

TEST_CASE("capability_groups: accepts an empty graph, no supported nodes and only supported nodes") {
  CHECK(capability_groups(testing::snapshot_builder().build(), {}).empty());
  auto const s = parted_chain();
  for (auto const by : {grouping::fewest, grouping::merge_walk}) {
    CHECK(capability_groups(s, {0, 0, 0, 0}, {.by = by}).empty());
    CHECK(nodes_of(capability_groups(s, {1, 1, 1, 1}, {.by = by})) == std::vector<nodes>{{0, 1, 2, 3}});
  }
}

TEST_CASE("capability_groups: rejects options that do not fit the graph and names the option") {
  auto const s = parted_chain();
  CHECK_THROWS_WITH_AS(capability_groups(s, parted_support, {.together = {{1}, {0, 7}}}),
                       "capability_groups: `together` names node #7, but the graph has only 4 nodes", error);
  CHECK_THROWS_WITH_AS(capability_groups(s, parted_support, {.projection = {1}}),
                       "capability_groups: projection has 1 entries, but the graph has 4 nodes", error);
  CHECK_THROWS_WITH_AS(capability_groups(s, parted_support, {.size = {1, 2, 3, 4, 5}}),
                       "capability_groups: size has 5 entries, but the graph has 4 nodes", error);
}
