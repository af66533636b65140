// SPDX-License-Identifier: MIT
#include "cleave/split/assignment_log.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "cleave/split/make_plan.hpp"
#include "support/random_plan.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using kind = assignment_event::kind;

namespace {

std::vector<std::string> texts(snapshot_arrays const& g, assignment_log const& log, std::size_t n) {
  std::vector<std::string> list;
  for (auto const& e : log.of(n)) list.push_back(assignment_text(g, e));
  return list;
}

}  // namespace

TEST_CASE("assignment_log: describes each step that assigned a node to its stage") {
  testing::snapshot_builder b;
  auto const shape = b.node(0, {});
  b.name("shape");
  b.replicable();
  auto const pair = b.node(1, {b.input(), shape});
  b.name("pair");
  auto const item = b.node(1, {pair});
  b.name("item");
  b.node(1, {item, shape});
  b.name("last");
  auto const g = b.build();
  partition const p{{no_part, part_id{0}, part_id{1}, part_id{0}}, 2};

  assignment_log cut(p);
  auto const acyclic = acyclic_parts(g, p, cycle_policy::cut);
  cut.record(acyclic);
  cut.record(g, make_plan(g, acyclic.parts));
  CHECK(texts(g, cut, 3) ==
        std::vector<std::string>{"last (#3) is assigned to part 0",
                                 "last (#3) is in part 2, an instance of part 0, which lay on a cycle"});
  CHECK(texts(g, cut, 0) == std::vector<std::string>{"shape (#0) is copied into stage 0 for pair (#1)",
                                                     "shape (#0) is copied into stage 2 for last (#3)"});

  assignment_log merged(p);
  merged.record(acyclic_parts(g, p, cycle_policy::merge));
  CHECK(texts(g, merged, 2).back() ==
        "item (#2) moves with part 1 into part 0, which holds all parts of a cycle");

  assignment_log moved(p);
  auto const by_moves = acyclic_parts(g, p, cycle_policy::move);
  moved.record(by_moves);
  REQUIRE(by_moves.moved.size() == 1);
  CHECK(texts(g, moved, by_moves.moved.front().node)
            .back()
            .find("since the parts depended on each other in a cycle") != std::string::npos);

  assignment_log settled(acyclic.parts);
  auto const rules = resolve_boundary(
      g, acyclic.parts,
      [&](std::size_t v) { return v == pair ? crossing_rule::project : crossing_rule::pass; },
      [](std::size_t n) { return n == 2; }, [](std::size_t) { return holding_rule::hold; });
  settled.record(rules);
  CHECK(texts(g, settled, 2).back() ==
        "item (#2) goes from part 1 to part 0, to pair (#1), since it takes an element of a result there");
}

TEST_CASE("assignment_log: explains exactly the nodes of each stage of a plan") {
  testing::rng random(101);
  for (int round = 0; round < 1000; ++round) {
    auto const g = testing::random_rich_graph(random, 1 + random.below(20));
    auto p = testing::random_partition(random, g.nodes(), 3);
    for (std::size_t n = 0; n < g.nodes(); ++n) p.of[n] = p.of[g.group[n]];
    assignment_log log(p);
    auto const acyclic = acyclic_parts(g, p, random.one_in(2) ? cycle_policy::merge : cycle_policy::move);
    log.record(acyclic);
    auto const settled = resolve_boundary(
        g, acyclic.parts, [](std::size_t) { return crossing_rule::pass; }, [](std::size_t) { return false; },
        [](std::size_t) { return holding_rule::hold; });
    log.record(settled);
    auto const plan = make_plan(settled.s, settled.parts);
    log.record(settled.s, plan);

    std::vector<std::pair<std::size_t, std::uint32_t>> there, said;
    for (std::uint32_t i = 0; i < plan.stages.size(); ++i)
      for (auto const n : plan.stages[i].nodes) there.emplace_back(n, i);
    for (std::size_t n = 0; n < g.nodes(); ++n)
      for (auto const& e : log.of(n)) {
        bool const copy = e.what == kind::copied || e.what == kind::in_own_part;
        if (copy) CHECK(is_replicable(g, n));
        CHECK(!assignment_text(g, e).empty());
        if (is_replicable(g, n) ? copy : e == log.of(n).back()) said.emplace_back(n, index(e.to));
        if (e.what == kind::copied)  // the stage also has its reader
          CHECK(std::ranges::count(plan.stages[index(e.to)].nodes, e.other) == 1);
      }
    std::ranges::sort(there);
    std::ranges::sort(said);
    CHECK(there == said);
  }
}

TEST_CASE("assignment_log: describes copied scope marks, groups and recomputed nodes") {
  testing::snapshot_builder b;
  auto const x = b.input();
  b.node(1, {x});
  b.node(1, {x});
  b.node(1, {x});
  b.together(1, 2);
  auto const g = b.build();
  partition const p{{part_id{0}, part_id{1}, part_id{1}}, 2};
  assignment_log log(p);
  auto plan = make_plan(g, p);
  plan.stages[1].nodes = {0, 1, 2, 0};  // the first and the last are marks
  log.record(g, plan);
  CHECK(texts(g, log, 0) ==
        std::vector<std::string>{"#0 is assigned to part 0", "#0 is copied into stage 1 for the state at #1",
                                 "#0 is copied into stage 1 for the state at the end of the stage"});
  CHECK(texts(g, log, 2).back() == "#2 must share its stage with #1");
  CHECK(log.events().size() == 6);

  assignment_log copied(partition{{part_id{0}, part_id{1}, part_id{1}}, 2});
  resolved_boundary<snapshot_arrays> rules{g, p, {}, {1}, {}};
  copied.record(rules);
  CHECK(texts(g, copied, 1).back() == "#1 is copied to its readers, by the rules for the boundary");
}
