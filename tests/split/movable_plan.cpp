// SPDX-License-Identifier: MIT
#include "cleave/split/movable_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "cleave/graph/snapshot.hpp"
#include "cleave/split/check_plan.hpp"
#include "support/cases.hpp"
#include "support/random_plan.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

// A plan refers to its snapshot, so it cannot be made of a temporary one.
static_assert(std::is_constructible_v<incremental_plan<std::uint32_t>, snapshot_arrays const&, partition>);
static_assert(!std::is_constructible_v<incremental_plan<std::uint32_t>, snapshot_arrays, partition>);

partition parts_of(std::vector<std::uint32_t> const& of, std::uint32_t parts) {
  partition p{{}, parts};
  for (auto const i : of) p.of.push_back(part_id{i});
  return p;
}

/// Adds random companions, and state that a node writes.
void enrich(testing::rng& random, snapshot_arrays& g) {
  for (std::uint32_t v = 0; v < g.values(); ++v) {
    if (random.one_in(4)) {
      auto const c = static_cast<std::uint32_t>(random.below(v + 1));  // made before v: no cycle
      if (c != v) g.companions.add(c);
    }
    g.companions.close();
  }
  for (auto const v : g.state) {
    if (g.users[v].empty() || random.one_in(2)) continue;
    auto const writer = g.users[v].back();  // runs after all readers of the old value
    auto const made = g.results[writer].front();
    if (is_replicable(g, writer) || g.slot[made] != made) continue;
    bool copied = false;
    for (auto const n : g.users[v]) copied |= is_replicable(g, n);
    if (copied) continue;
    g.slot[made] = g.slot[v];
    g.latest[g.slot[v]] = made;
  }
}

/// Moves nodes at random. After each move the plan equals that of make_plan, or both reject the move.
void check_moves(testing::rng& random, snapshot_arrays const& g, partition const& p, std::size_t& moved,
                 std::size_t& refused) {
  incremental_plan<std::uint32_t> plan(g, p);
  REQUIRE(plan.plan() == make_plan(g, plan.parts()));
  for (int step = 0; step < 12; ++step) {
    auto const n = random.below(g.nodes());
    auto const to = part_id{static_cast<std::uint32_t>(random.below(p.parts))};
    auto const before = plan.parts();
    auto wanted = before;
    if (is_replicable(g, n))
      wanted.of[n] = to;
    else
      for (std::size_t m = 0; m < g.nodes(); ++m)
        if (g.group[m] == g.group[n] && !is_replicable(g, m)) wanted.of[m] = to;
    auto const old = plan.plan();
    try {
      auto const changed = plan.move(n, to);
      ++moved;
      CHECK(plan.parts() == wanted);
      auto const made = make_plan(g, wanted);
      CHECK(plan.plan() == made);
      std::vector<stage_id> differ;
      for (std::uint32_t i = 0; i < p.parts; ++i)
        if (made.stages[i] != old.stages[i]) differ.push_back(stage_id{i});
      CHECK(std::ranges::includes(changed, differ));
    } catch (partition_error const&) {
      ++refused;
      CHECK_THROWS_AS(make_plan(g, wanted), partition_error);
      CHECK(plan.parts() == before);
      CHECK(plan.plan() == old);
    }
  }
}

}  // namespace

TEST_CASE(
    "incremental_plan: a move updates the affected stages, and a move that makes a cycle changes nothing") {
  testing::snapshot_builder b;
  auto v = b.input();
  for (int i = 0; i < 4; ++i) v = b.node(1, {v});
  auto const g = b.build();
  incremental_plan<std::uint32_t> plan(g, parts_of({0, 0, 1, 1}, 3));
  CHECK(plan.move(1, part_id{1}) == std::vector{stage_id{0}, stage_id{1}});
  CHECK(plan.stage(stage_id{0}).outputs == std::vector<std::uint32_t>{1});
  CHECK(plan.stage(stage_id{1}).nodes == std::vector<std::uint32_t>{1, 2, 3});
  CHECK(plan.move(1, part_id{1}).empty());
  CHECK_THROWS_AS(plan.move(2, part_id{0}), partition_error);
  CHECK(plan.plan() == make_plan(g, parts_of({0, 1, 1, 1}, 3)));
  plan.move(3, part_id{2});
  CHECK(plan.plan() == make_plan(g, parts_of({0, 1, 1, 2}, 3)));
  CHECK_THROWS_AS(incremental_plan<std::uint32_t>(g, parts_of({0, 1, 0, 1}, 2)), partition_error);
}

TEST_CASE("incremental_plan: after each move the plan equals make_plan, and both reject the same moves") {
  testing::rng random(91);
  std::size_t moved = 0, refused = 0;
  auto const rounds = testing::cases(600, 2500);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto g = testing::random_rich_graph(random, 1 + random.below(18));
    auto p = testing::random_legal_partition(random, g, static_cast<std::uint32_t>(2 + random.below(3)));
    if (random.one_in(2)) enrich(random, g);
    if (find_cycle_between_parts(g, p)) p = acyclic_parts(g, p, cycle_policy::merge).parts;
    if (random.one_in(3))
      for (std::size_t n = 0; n < g.nodes(); ++n)
        if (is_replicable(g, n) && random.one_in(2)) p.of[n] = no_part;
    check_moves(random, g, p, moved, refused);
  }
  CHECK(moved > rounds * 4);
  CHECK(refused > rounds * 6 / 5);
}

TEST_CASE("incremental_plan: moves in programs with effects and several results also equal make_plan") {
  testing::rng random(92);
  std::size_t moved = 0, refused = 0;
  auto const rounds = testing::cases(100, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const program = testing::random_program(random, 2 + random.below(20));
    auto const s = snapshot_of(toy::graph(program));
    check_moves(random, s, testing::equal_slices(s.nodes(), 3), moved, refused);
  }
  CHECK(moved > rounds * 5 / 3);
  CHECK(refused > rounds * 5 / 3);
}
