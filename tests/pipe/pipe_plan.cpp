// SPDX-License-Identifier: MIT
#include "cleave/pipe/pipe_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/partition/named/cut_points.hpp"
#include "cleave/partition/slices/balance.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/emit.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

bool is_cut(toy::op const* o) { return o->name == "cut"; }

/// A random program with markers at random places.
toy::program marked_program(testing::rng& r, std::size_t nodes) {
  auto p = testing::random_program(r, nodes);
  for (auto markers = r.below(5); markers-- > 0;) {
    auto const at = static_cast<std::ptrdiff_t>(r.below(p.ops.size() + 1));
    auto marker = std::make_unique<toy::op>(toy::op{"cut", {}, {}});
    for (auto few = r.below(2); few-- > 0 && at > 0;) marker->follows.push_back(p.ops[0].get());
    p.ops.insert(p.ops.begin() + at, std::move(marker));
  }
  return p;
}

using terms = std::map<std::string, std::string>;

/// Runs the stages in order, each with only the values that its edges deliver.
terms run_pipe(toy::graph const& g, snapshot<toy::graph> const& s, pipe_plan const& p) {
  std::vector<terms> brought(p.plan.stages.size());
  terms returned;
  auto const send = [&](stage_id from, std::string const& name, std::string const& term) {
    for (auto const& e : p.edges) {
      if (e.from != from || s.value[e.value] != name) continue;
      for (stage_id const to : e.to) (to == the_caller ? returned : brought[index(to)])[name] = term;
    }
  };
  for (auto const& v : g.inputs()) send(the_caller, v, v);
  for (std::uint32_t i = 0; i < p.plan.stages.size(); ++i) {
    toy::builder b;
    emit_stage(g, s, p.plan.stages[i], b);
    terms given;
    for (auto const& v : b.made.inputs) given[v] = brought[i].at(v);
    auto const made = toy::run(b.made, given);
    for (auto const& v : b.made.outputs) send(stage_id{i}, v, made.at(v));
  }
  return returned;
}

}  // namespace

TEST_CASE(
    "make_pipe_plan: stages that run in order on the values of their edges give the program's results") {
  testing::rng r(21);
  for (int round = 0; round < 400; ++round) {
    auto const program = marked_program(r, 1 + r.below(20));
    toy::graph const g(program);
    auto const s = snapshot_of(g);
    auto const p = make_pipe_plan(s, cut_at(s, cuts_at_markers(g, s, is_cut)));
    terms whole = toy::run(program, {{"x", "x"}, {"y", "y"}});
    auto const got = run_pipe(g, s, p);
    for (auto const& v : program.outputs) CHECK(got.at(v) == (whole.contains(v) ? whole.at(v) : v));
    for (auto const& t : p.plan.transfers) CHECK(t.from < t.to);
    for (auto const& stage : p.plan.stages) {
      CHECK_FALSE(stage.nodes.empty());
      for (auto const n : stage.nodes) CHECK(s.node[n]->name != "cut");
    }
    CHECK(std::ranges::is_sorted(p.number));
  }
}

TEST_CASE("make_pipe_plan: parts refined by balance run correctly and give at most 3 stages each") {
  testing::rng r(22);
  for (int round = 0; round < 200; ++round) {
    auto const program = marked_program(r, 2 + r.below(20));
    toy::graph const g(program);
    auto const s = snapshot_of(g);
    auto const markers = cut_at(s, cuts_at_markers(g, s, is_cut));
    auto const p = make_pipe_plan(s, refined(markers, balance(s, 3)));
    auto const whole = toy::run(program, {{"x", "x"}, {"y", "y"}});
    auto const got = run_pipe(g, s, p);
    for (auto const& v : program.outputs) CHECK(got.at(v) == (whole.contains(v) ? whole.at(v) : v));
    for (auto const& t : p.plan.transfers) CHECK(t.from < t.to);
    CHECK(p.plan.stages.size() <= 3 * std::size_t{markers.parts});
  }
}

TEST_CASE("make_pipe_plan: without markers, the plan equals make_plan of the same parts") {
  testing::rng r(23);
  for (int round = 0; round < 200; ++round) {
    auto s = testing::random_graph(r, {.nodes = 1 + r.below(12), .states = 2, .ordered = 4});
    s.outputs = {static_cast<std::uint32_t>(s.results.item.back())};
    cut_list list;
    for (auto cuts = r.below(4); cuts-- > 0;)
      list.points.push_back({cut_kind::policy, r.below(s.nodes() + 1), cuts});
    auto const parts = cut_at(s, list);
    auto const p = make_pipe_plan(s, parts);
    CHECK(p.plan == make_plan(s, parts, {.outputs = output_order::first_use}));
    CHECK_FALSE(find_plan_fault(s, p.plan));
    CHECK(p.number == parts.number);
  }
}

TEST_CASE("make_pipe_plan: an edge lists all readers, the caller last, and an unread input has no edge") {
  testing::snapshot_builder b;
  auto const x = b.input(), unread = b.input();
  auto const a = b.node(1, {x});
  auto const c = b.node(1, {a});
  auto const d = b.node(1, {a, c, x});
  b.output(a);
  b.output(d);
  auto const s = b.build();
  cut_list list;
  list.points = {{cut_kind::policy, 1, 0}, {cut_kind::policy, 2, 1}};
  auto const p = make_pipe_plan(s, cut_at(s, list));
  CHECK(p.edges == std::vector<pipe_edge>{{x, the_caller, {stage_id{0}, stage_id{2}}},
                                          {a, stage_id{0}, {stage_id{1}, stage_id{2}, the_caller}},
                                          {c, stage_id{1}, {stage_id{2}}},
                                          {d, stage_id{2}, {the_caller}}});
  CHECK(unread != x);
  CHECK_FALSE(skips_stages(p.edges[0]));
  CHECK(skips_stages(p.edges[1]));
  CHECK_FALSE(skips_stages(p.edges[2]));
  CHECK(is_returned(p.edges[1].to));
  CHECK_FALSE(is_returned(p.edges[2].to));
}

TEST_CASE("make_pipe_plan: the last stage holds and outputs the state that the program returns") {
  testing::snapshot_builder b;
  auto const x = b.input(), w = b.state();
  auto const a = b.node(1, {x, w});
  auto const c = b.node(1, {a});
  b.output(c);
  b.output(w);
  auto const s = b.build();
  cut_list list;
  list.points = {{cut_kind::policy, 1, 0}};
  auto const p = make_pipe_plan(s, cut_at(s, list));
  CHECK(p.plan.stages[0].state == std::vector{w});
  CHECK(p.plan.stages[1].state == std::vector{w});
  CHECK(p.plan.stages[1].outputs == std::vector{c, w});
  CHECK(p.edges.back() == pipe_edge{w, stage_id{1}, {the_caller}});
}

TEST_CASE("make_pipe_plan: numbers stages in the order in which they run, not as the partition does") {
  testing::snapshot_builder b;
  auto const x = b.input();
  auto const a = b.node(1, {x});
  auto const c = b.node(1, {a});
  b.output(c);
  cut_partition p;
  p.of = {part_id{1}, part_id{0}};
  p.parts = 2;
  p.number = {7, 5};
  auto const cut = make_pipe_plan(b.build(), p);
  CHECK(cut.number == std::vector<std::uint32_t>{5, 7});
  CHECK(cut.plan.transfers == std::vector<transfer>{{a, stage_id{0}, stage_id{1}}});
}

TEST_CASE("make_pipe_plan: rejects a program that returns nothing") {
  testing::snapshot_builder b;
  b.node(1, {b.input()});
  auto const s = b.build();
  CHECK_THROWS_AS(make_pipe_plan(s, cut_at(s, {})), no_output_error);
}

TEST_CASE("make_pipe_plan: a program without operations has no stages and returns its inputs") {
  testing::snapshot_builder b;
  auto const x = b.input();
  b.output(x);
  auto const s = b.build();
  auto const p = make_pipe_plan(s, cut_at(s, {}));
  CHECK(p.plan.stages.empty());
  CHECK(p.edges == std::vector<pipe_edge>{{x, the_caller, {the_caller}}});
}
