// SPDX-License-Identifier: MIT
#include "cleave/split/boundary.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/units/part_cycles.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/inline_stages.hpp"
#include "cleave/split/modules/module_builder.hpp"
#include "support/cases.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;
using testing::integer_value;
using positions = std::vector<std::size_t>;

namespace {

using enum crossing_rule;

auto const no_projection = [](std::size_t) { return false; };
auto const hold_all = [](std::size_t) { return holding_rule::hold; };

partition parts_of(std::vector<std::uint32_t> const& of) {
  partition p;
  for (auto const i : of) p.of.push_back(part_id{i}), p.parts = std::max(p.parts, i + 1);
  return p;
}

integer_value input_value(module_graph const& g, position n) {
  return integer_value::computed(testing::fnv(g[n].name));
}

std::vector<module_graph> pieces_of(module_graph const& g, staged_graph<module_graph> const& stages) {
  std::vector<module_graph> pieces;
  for (std::uint32_t i = 0; i < stages.size(); ++i) {
    module_builder b(g, {.results = result_form::tuple});
    emit(stages, stage_id{i}, b);
    pieces.push_back(std::move(b).finish());
  }
  return pieces;
}

/// The values of the graph's outputs if its stages run one after another.
std::vector<integer_value> run_stages(module_graph const& g, staged_graph<module_graph> const& stages) {
  auto const& s = stages.snapshot();
  auto const pieces = pieces_of(g, stages);
  testing::integer_interpretation meaning;
  std::vector<std::optional<integer_value>> value(s.values());
  for (std::uint32_t v = 0; v < s.values(); ++v)
    if (s.producer[v] == none<std::uint32_t>)
      value[v] = g[s.value[v]].kind == node_kind::get_attr ? meaning.attribute(g, s.value[v])
                                                           : input_value(g, s.value[v]);
  for (auto const i : stages.plan().order) {
    auto const& stage = stages.plan().stages[index(i)];
    std::vector<integer_value> given;
    for (auto const v : stage.inputs) given.push_back(value[v].value());
    auto const made = evaluate(pieces[index(i)], given, meaning);
    for (std::size_t k = 0; k < stage.outputs.size(); ++k) value[stage.outputs[k]] = (*made.items)[k];
  }
  std::vector<integer_value> results;
  for (auto const v : s.outputs) results.push_back(value[v].value());
  return results;
}

/// The values of the graph's outputs without a split.
std::vector<integer_value> run_whole(module_graph const& g) {
  module_graph flat;
  for (auto const& n : g.list())
    if (n.kind != node_kind::output) flat.add(n);
  for (auto const& a : g.attributes()) flat.add_attribute(a);
  module_node output;
  output.kind = node_kind::output;
  output.name = "output";
  output.args = {tuple_argument(g.outputs())};
  flat.add(output);
  std::vector<integer_value> given;
  for (auto const n : g.inputs()) given.push_back(input_value(g, n));
  testing::integer_interpretation meaning;
  return *evaluate(flat, given, meaning).items;
}

/// Joins the pieces into one module_graph.
struct joiner {
  module_graph const& whole;
  snapshot<module_graph> const& s;
  std::vector<module_graph> const& pieces;
  module_graph made{};
  std::vector<position> results{};

  position argument(std::uint32_t v, source) { return made.add(whole[s.value[v]]); }
  std::vector<position> clone(std::size_t piece, position n, auto lookup) {
    auto copy = pieces[piece][n];
    for (auto& a : copy.args) a = map_nodes(std::move(a), lookup);
    for (auto& k : copy.kwargs) k.value = map_nodes(std::move(k.value), lookup);
    copy.target = whole[copy.from].target;
    copy.after.clear();
    return {made.add(std::move(copy))};
  }
  void result(std::uint32_t, position at) { results.push_back(at); }
};

std::vector<integer_value> run_joined(module_graph const& g, staged_graph<module_graph> const& stages) {
  auto const pieces = pieces_of(g, stages);
  joiner join{g, stages.snapshot(), pieces};
  inline_stages(stages.snapshot(), stages.plan(), pieces, join);
  for (auto const& a : g.attributes()) join.made.add_attribute(a);
  module_node output;
  output.kind = node_kind::output;
  output.name = "output";
  output.args = {tuple_argument(join.results)};
  join.made.add(output);
  return run_whole(join.made);
}

}  // namespace

TEST_CASE("resolve_boundary: a projected tuple stays in its part, and only its elements cross") {
  testing::snapshot_builder b;
  auto const pair = b.node(1, {b.input()});
  auto const first = b.node(1, {pair});
  auto const second = b.node(1, {pair});
  b.node(1, {first, second});
  auto const g = b.build();
  auto const p = parts_of({0, 1, 2, 2});
  auto const settled = resolve_boundary(
      g, p, [&](std::size_t v) { return v == pair ? project : pass; },
      [](std::size_t n) { return n == 1 || n == 2; }, hold_all);
  CHECK(settled.parts == parts_of({0, 0, 0, 2}));
  CHECK(settled.projected == positions{1, 2});
  CHECK_THROWS_WITH_AS(
      resolve_boundary(
          g, p, [&](std::size_t) { return project; }, [](std::size_t n) { return n == 1; }, hold_all),
      "value of #0 in part 0, which #2 in part 2 reads: only elements of the value may cross, but the reader "
      "needs the whole value",
      boundary_error);
}

TEST_CASE(
    "resolve_boundary: copies a recomputed node with all its operands, or names one that is not copied") {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const shape = b.node(3, {x});
  auto const half = b.node(2, {shape});
  auto const y = b.node(1, {half});
  b.node(1, {half, y});
  auto const g = b.build();
  auto const p = parts_of({0, 0, 0, 1});
  auto const recomputes = [&](std::size_t v) { return v == y ? pass : recompute; };
  auto const settled = resolve_boundary(g, p, recomputes, no_projection, hold_all);
  CHECK(settled.recomputed == positions{0, 1});
  auto const cut = make_plan(settled.s, settled.parts);
  CHECK(cut.stages[1].nodes == std::vector<std::uint32_t>{0, 1, 3});
  CHECK(cut.stages[1].inputs == std::vector<std::uint32_t>{x, y});
  CHECK_THROWS_WITH_AS(
      resolve_boundary(
          g, p, [&](std::size_t v) { return v == half ? recompute : pass; }, no_projection, hold_all),
      "value of #0 in part 0, which copies of #1 reads: the reader is recomputed in other parts, but the "
      "value that it reads is not; let both be recomputed",
      boundary_error);
}

TEST_CASE("resolve_boundary: rejects a copy that reads a sent value, even if another part reads it first") {
  testing::snapshot_builder b;
  auto const sent = b.node(1, {b.input()});
  b.node(1, {sent});
  auto const copied = b.node(1, {sent});
  b.node(1, {copied});
  CHECK_THROWS_WITH_AS(
      resolve_boundary(
          b.build(), parts_of({0, 1, 1, 2}), [&](std::size_t v) { return v == copied ? recompute : pass; },
          no_projection, hold_all),
      "value of #0 in part 0, which copies of #2 reads: the reader is recomputed in other parts, but the "
      "value that it reads is not; let both be recomputed",
      boundary_error);
}

TEST_CASE(
    "resolve_boundary: names both ends of a value that may not cross, and does not move a node with "
    "effects") {
  testing::snapshot_builder b;
  auto const v = b.node(1, {b.input()});
  b.name("a");
  b.node(1, {v});
  b.after(0);
  b.name("b");
  auto const g = b.build();
  try {
    resolve_boundary(
        g, parts_of({0, 1}), [](std::size_t) { return crossing_rule::refuse; }, no_projection, hold_all);
    FAIL("no error");
  } catch (boundary_error const& e) {
    CHECK(e.witness == dependency{0, 1});
    CHECK(std::string(e.what()) ==
          "value of a (#0) in part 0, which b (#1) in part 1 reads: the value may not cross a boundary; put "
          "producer and reader in one part");
  }
  auto const same = resolve_boundary(
      g, parts_of({0, 0}), [](std::size_t) { return crossing_rule::refuse; }, no_projection, hold_all);
  CHECK(same.parts == parts_of({0, 0}));
  auto const w = b.node(1, {v + 1});
  b.node(1, {w});
  CHECK_NOTHROW(resolve_boundary(
      b.build(), parts_of({0, 0, 0, 1}), [](std::size_t) { return pass; }, no_projection, hold_all));
  CHECK_THROWS_AS(resolve_boundary(
                      b.build(), parts_of({0, 1, 0, 1}), [](std::size_t) { return project; },
                      [](std::size_t) { return true; }, hold_all),
                  boundary_error);  // node 1 must follow another, so it may not move
  CHECK_THROWS_AS(resolve_boundary(
                      g, parts_of({0}), [](std::size_t) { return pass; }, no_projection, hold_all),
                  partition_error);
}

TEST_CASE("resolve_boundary: a stage holds a state, or the caller passes it, as its rule demands") {
  testing::snapshot_builder b;
  auto const one = b.state(), both = b.state();
  auto const v = b.node(1, {one, both});
  b.node(1, {v, both});
  auto g = b.build();
  auto const p = parts_of({0, 1});
  auto const lifted = resolve_boundary(
      g, p, [](std::size_t) { return pass; }, no_projection, [](std::size_t) { return holding_rule::lift; });
  CHECK(lifted.passed == positions{both});
  auto const cut = make_plan(lifted.s, p);
  CHECK(cut.stages[0].state == std::vector<std::uint32_t>{one});
  CHECK(cut.stages[0].inputs == std::vector<std::uint32_t>{both});
  CHECK(cut.stages[1].inputs == std::vector<std::uint32_t>{v, both});
  CHECK(resolve_boundary(g, p, [](std::size_t) { return pass; }, no_projection, hold_all).passed.empty());
  CHECK(resolve_boundary(
            g, p, [](std::size_t) { return pass; }, no_projection,
            [](std::size_t) { return holding_rule::pass; })
            .passed == positions{one, both});
  g.slot[v] = g.slot[both];  // the first node writes the state
  g.latest[g.slot[both]] = v;
  CHECK_THROWS_AS(resolve_boundary(
                      g, p, [](std::size_t) { return pass; }, no_projection,
                      [](std::size_t) { return holding_rule::pass; }),
                  holding_error);
}

TEST_CASE(
    "split_with_boundary: split and rejoined graphs compute the same as the whole, under random rules") {
  testing::rng random(81);
  std::size_t met = 0, refused = 0, projected = 0, copied = 0, passed = 0;
  auto const rounds = testing::cases(1000, 3000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(15));
    auto const seed = testing::rng(random.below(1'000'000));
    auto const count = g.nodes().size();
    auto const p = acyclic_parts(g, testing::random_partition(random, count, 3),
                                 random.one_in(2) ? cycle_policy::cut : cycle_policy::move)
                       .parts;
    auto choices = seed;
    std::vector<crossing_rule> rule(g.list().size());
    std::vector<holding_rule> holds(g.list().size());
    bool const gentle = random.one_in(2);
    for (auto& r : rule)
      r = gentle && !choices.one_in(4) ? pass : std::vector{pass, project, recompute}[choices.below(3)];
    for (auto& h : holds)
      h = std::vector{holding_rule::hold, holding_rule::pass, holding_rule::lift}[choices.below(3)];
    try {
      auto const stages = split_with_boundary(
          g, p, [&](position v) { return rule[v]; }, [&](position n) { return g[n].target == "getitem"; },
          [&](position v) { return holds[v]; });
      ++met;
      auto const settled = resolve_boundary(
          snapshot_of(g), p, [&](std::size_t v) { return rule[snapshot_of(g).value[v]]; },
          [&](std::size_t n) { return g[g.nodes()[n]].target == "getitem"; },
          [&](std::size_t v) { return holds[snapshot_of(g).value[v]]; });
      projected += settled.projected.size();
      copied += settled.recomputed.size();
      passed += settled.passed.size();
      auto const fault = find_plan_fault(stages.snapshot(), stages.plan());
      CHECK_MESSAGE(!fault, (fault ? plan_fault_text(stages.snapshot(), *fault) : ""));
      auto const whole = run_whole(g);
      CHECK(run_stages(g, stages) == whole);
      CHECK(run_joined(g, stages) == whole);
      for (auto const& t : stages.plan().transfers)  // only values that may cross do
        CHECK(rule[stages.snapshot().value[t.value]] == pass);
      for (auto const& stage : stages.plan().stages)
        for (auto const v : stage.state) CHECK(holds[stages.snapshot().value[v]] != holding_rule::pass);
    } catch (boundary_error const& e) {
      ++refused;
      CHECK(e.witness.producer < e.witness.consumer);
    }
  }
  CHECK(met > rounds / 3);
  CHECK(refused > rounds / 10);
  CHECK(projected > rounds / 60);
  CHECK(copied > rounds / 30);
  CHECK(passed > rounds / 10);
}
