// SPDX-License-Identifier: MIT
#include "cleave/partition/units/part_cycles.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "support/archetype.hpp"
#include "support/cases.hpp"
#include "support/random_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

partition parts_of(std::vector<std::uint32_t> const& of) {
  partition p;
  for (auto const i : of) p.of.push_back(part_id{i}), p.parts = std::max(p.parts, i + 1);
  return p;
}

/// A chain of n nodes.
snapshot_arrays chain(std::size_t n) {
  testing::snapshot_builder b;
  auto v = b.input();
  while (n-- > 0) v = b.node(1, {v});
  return b.build();
}

/// A random partition that keeps groups whole; only cycles can make it invalid.
partition whole_groups(testing::rng& random, snapshot_arrays const& g, std::uint32_t parts) {
  auto p = testing::random_partition(random, g.nodes(), parts);
  for (std::size_t n = 0; n < g.nodes(); ++n) p.of[n] = p.of[g.group[n]];
  return p;
}

std::size_t filled(partition const& p) {
  std::vector<char> used(p.parts);
  for (auto const i : p.of) used[index(i)] = 1;
  return static_cast<std::size_t>(std::ranges::count(used, 1));
}

/// Calls `f` with each assignment of parts below `limit(n, used)` to `nodes` nodes; `used` is the number of
/// parts used before node n.
template <class Limit, class F>
void each_partition(std::size_t nodes, Limit limit, F f) {
  std::vector<std::uint32_t> of(nodes);
  auto const used = [&](std::size_t n) {
    return n == 0 ? 0u : *std::max_element(of.begin(), of.begin() + static_cast<std::ptrdiff_t>(n)) + 1;
  };
  for (;;) {
    f(of);
    auto n = nodes;
    while (n > 0 && of[n - 1] + 1 >= limit(n - 1, used(n - 1))) of[--n] = 0;
    if (n == 0) return;
    ++of[n - 1];
  }
}

}  // namespace

TEST_CASE("acyclic_parts: `refuse` throws on a cycle, and acyclic parts stay unchanged") {
  auto const g = chain(3);
  CHECK_THROWS_AS(acyclic_parts(g, parts_of({0, 1, 0}), cycle_policy::refuse), partition_error);
  for (auto const policy :
       {cycle_policy::refuse, cycle_policy::cut, cycle_policy::merge, cycle_policy::move}) {
    auto const p = parts_of({1, 0, 0});
    auto const r = acyclic_parts(g, p, policy);
    CHECK(r.parts == p);
    CHECK(r.made_of.item == std::vector<std::uint32_t>{0, 1});
    CHECK(r.moved.empty());
    CHECK(r.new_cuts == 0);
  }
}

TEST_CASE("acyclic_parts: cuts or merges a part that is entered again, or moves its nodes") {
  auto const g = chain(5);
  auto const p = parts_of({0, 1, 2, 1, 0});
  auto const cut = acyclic_parts(g, p, cycle_policy::cut);
  CHECK(cut.parts == parts_of({0, 1, 2, 3, 4}));
  CHECK(cut.made_of.item == std::vector<std::uint32_t>{0, 1, 2, 1, 0});
  CHECK(cut.new_cuts == 2);
  CHECK(cut.least_cuts == 2);
  auto const merged = acyclic_parts(g, p, cycle_policy::merge);
  CHECK(merged.parts == parts_of({0, 0, 0, 0, 0}));
  CHECK(merged.made_of.item == std::vector<std::uint32_t>{0, 1, 2});
  auto const moved = acyclic_parts(g, p, cycle_policy::move);
  CHECK(moved.moved.size() == 2);
  for (auto const& m : moved.moved) CHECK(p.of[m.node] == m.from);
  CHECK_FALSE(find_cycle_between_parts(g, moved.parts));
}

TEST_CASE("acyclic_parts: can only merge or move a part between nodes that must stay together") {
  testing::snapshot_builder b;
  auto const x = b.node(1, {b.input()});
  auto const first = b.last();
  auto const y = b.node(1, {x});
  b.node(1, {y});
  b.together(first, b.last());
  auto const g = b.build();
  auto const p = parts_of({0, 1, 0});
  CHECK_THROWS_AS(acyclic_parts(g, p, cycle_policy::cut), partition_error);
  CHECK(acyclic_parts(g, p, cycle_policy::merge).parts == parts_of({0, 0, 0}));
  CHECK(acyclic_parts(g, p, cycle_policy::move).moved ==
        std::vector<moved_node>{{1, part_id{1}, part_id{0}}});
  CHECK_THROWS_AS(acyclic_parts(g, parts_of({0, 1, 1}), cycle_policy::merge), partition_error);
  CHECK_THROWS_AS(acyclic_parts(g, parts_of({0, 1}), cycle_policy::cut), partition_error);
}

TEST_CASE("acyclic_parts: makes the fewest cuts and nearly the fewest moves") {
  testing::rng random(31);
  std::size_t cyclic = 0, fewest_moves = 0, moves = 0, least_moves = 0;
  auto const rounds = testing::cases(140, 400);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_graph(random, {.nodes = 6, .most_operands = 2, .ordered = 5});
    auto const p = testing::random_partition(random, g.nodes(), 3);
    if (!find_cycle_between_parts(g, p)) continue;
    ++cyclic;
    auto const cut = acyclic_parts(g, p, cycle_policy::cut);
    std::size_t least = g.nodes();
    each_partition(
        g.nodes(), [](std::size_t, std::uint32_t used) { return used + 1; },
        [&](std::vector<std::uint32_t> const& of) {
          auto const finer = parts_of(of);
          for (std::size_t a = 0; a < of.size(); ++a)
            for (std::size_t b = 0; b < a; ++b)
              if (of[a] == of[b] && p.of[a] != p.of[b]) return;
          if (!find_cycle_between_parts(g, finer)) least = std::min<std::size_t>(least, finer.parts);
        });
    CHECK(cut.new_cuts == least - filled(p));
    CHECK(cut.least_cuts == cut.new_cuts);

    auto const moved = acyclic_parts(g, p, cycle_policy::move);
    std::size_t least_moved = g.nodes();
    each_partition(
        g.nodes(), [](std::size_t, std::uint32_t) { return 3u; },
        [&](std::vector<std::uint32_t> const& of) {
          auto other = parts_of(of);
          other.parts = 3;
          std::vector<char> stays(3);
          std::size_t count = 0;
          for (std::size_t n = 0; n < of.size(); ++n)
            other.of[n] == p.of[n] ? void(stays[of[n]] = 1) : void(++count);
          if (static_cast<std::size_t>(std::ranges::count(stays, 1)) == filled(p) && count < least_moved &&
              !find_cycle_between_parts(g, other))
            least_moved = count;
        });
    CHECK(moved.moved.size() >= least_moved);
    fewest_moves += moved.moved.size() == least_moved;
    moves += moved.moved.size();
    least_moves += least_moved;
  }
  CHECK(cyclic > rounds / 4);
  CHECK(fewest_moves * 10 > cyclic * 8);
  MESSAGE(cyclic << " cycles: moves are the fewest in " << fewest_moves << ", " << moves << " for "
                 << least_moves);
}

TEST_CASE("acyclic_parts: each policy gives a valid partition and reports exactly its changes") {
  testing::rng random(32);
  std::size_t cyclic = 0, refused = 0;
  auto const rounds = testing::cases(1000, 3000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_graph(random, {.nodes = 1 + random.below(30),
                                                  .most_operands = 3,
                                                  .reach = random.below(8),
                                                  .states = 2,
                                                  .replicable = random.below(6),
                                                  .tied = random.below(12),
                                                  .ordered = random.below(8)});
    auto const p = whole_groups(random, g, static_cast<std::uint32_t>(1 + random.below(5)));
    bool const cycle = find_cycle_between_parts(g, p).has_value();
    cyclic += cycle;
    for (auto const policy : {cycle_policy::cut, cycle_policy::merge, cycle_policy::move}) {
      acyclic_partition r;
      try {
        r = acyclic_parts(g, p, policy);
      } catch (partition_error const&) {
        CHECK(policy == cycle_policy::cut);
        ++refused;
        continue;
      }
      CHECK_NOTHROW(check_partition(g, r.parts));
      if (!cycle) CHECK(r.parts == p);
      REQUIRE(r.made_of.rows() == r.parts.parts);
      std::vector<moved_node> moved;
      for (std::size_t n = 0; n < g.nodes(); ++n) {
        auto const now = index(r.parts.of[n]);
        if (std::ranges::count(r.made_of[now], index(p.of[n])) == 0)
          moved.push_back({n, p.of[n], r.parts.of[n]});
      }
      CHECK(moved == r.moved);
      if (policy != cycle_policy::move) CHECK(moved.empty());
      if (policy == cycle_policy::cut) CHECK(r.new_cuts == r.parts.parts - p.parts);
      if (policy == cycle_policy::move) CHECK(r.parts.parts == p.parts);
      if (policy == cycle_policy::merge) {  // only parts that reach each other are merged
        auto const parts = part_graph_of(g, p).dependents;
        auto const reaches = [&](std::uint32_t from, std::uint32_t to) {
          std::vector<std::uint32_t> queue{from};
          std::vector<char> met(p.parts);
          for (std::size_t i = 0; i < queue.size(); ++i)
            for (auto const next : parts[queue[i]])
              if (!std::exchange(met[next], 1)) queue.push_back(next);
          return met[to] != 0;
        };
        for (std::size_t i = 0; i < r.made_of.rows(); ++i)
          for (auto const a : r.made_of[i])
            for (auto const b : r.made_of[i]) CHECK((a == b || reaches(a, b)));
      }
    }
  }
  CHECK(cyclic > rounds / 3);
  CHECK(refused > rounds / 300);
}

TEST_CASE("acyclic_parts: hardly any moved node could go back alone, and each part keeps one of its nodes") {
  testing::rng random(33);
  std::size_t moved = 0, stuck = 0;
  for (std::size_t round = 0; round < testing::cases(330, 1000); ++round) {
    auto const g = testing::random_graph(random, {.nodes = 40, .most_operands = 2, .reach = 10});
    auto const p = testing::random_partition(random, g.nodes(), 4);
    auto const r = acyclic_parts(g, p, cycle_policy::move);
    for (auto const& m : r.moved) {
      auto back = r.parts;
      back.of[m.node] = m.from;
      ++moved;
      stuck += find_cycle_between_parts(g, back).has_value();
    }
    std::vector<char> stays(p.parts);
    for (std::size_t n = 0; n < g.nodes(); ++n)
      if (r.parts.of[n] == p.of[n]) stays[index(p.of[n])] = 1;
    CHECK(std::ranges::count(stays, 1) == static_cast<std::ptrdiff_t>(filled(p)));
  }
  CHECK(stuck * 100 > moved * 95);
}

TEST_CASE("acyclic_parts: needs only nodes and operands, and handles long chains") {
  archetype::graph const g;
  CHECK(acyclic_parts(g, partition{std::vector(2, part_id{0}), 1}, cycle_policy::cut).parts.parts == 1);
  auto const nodes = testing::cases(50'000, 100'000);
  auto const long_chain = chain(nodes);
  partition p{{}, 4};
  for (std::uint32_t n = 0; n < nodes; ++n) p.of.push_back(part_id{n / 100 % 4});
  auto const r = acyclic_parts(long_chain, p, cycle_policy::cut);
  CHECK(r.new_cuts == nodes / 100 - 4);
  CHECK(r.least_cuts == nodes / 100 - 4);
  CHECK_FALSE(find_cycle_between_parts(long_chain, acyclic_parts(long_chain, p, cycle_policy::move).parts));
}
