// SPDX-License-Identifier: MIT
#include "cleave/pipe/pipe_check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/pipe/module_pipe.hpp"
#include "cleave/pipe/pipe_dataflow.hpp"
#include "cleave/pipe/relay.hpp"
#include "cleave/split/check_plan.hpp"
#include "support/cases.hpp"
#include "support/random_graph.hpp"
#include "support/random_module_graph.hpp"
#include "support/random_plan.hpp"
#include "support/rng.hpp"
#include "support/snapshot_builder.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using codes = std::set<std::string>;

codes codes_of(pipe_findings const& found) {
  codes all;
  for (auto const& f : found) {
    CHECK_FALSE(f.message.empty());
    all.insert(f.code);
  }
  return all;
}

cut_list cuts_before(std::vector<std::size_t> const& nodes) {
  cut_list list;
  for (auto const n : nodes) list.points.push_back({cut_kind::policy, n, n});
  return list;
}

/// Stages 0 to 3 hold a chain a, b, c, d. d also reads a; a and d are returned; b and c read a parameter.
struct small {
  snapshot_arrays s;
  std::uint32_t x, w, a, b, c, d;
  pipe_plan p;

  small() {
    testing::snapshot_builder g;
    x = g.input(4), w = g.state(9);
    a = g.node(1, {x}, 100);
    g.name("a");
    b = g.node(1, {a, w});
    g.name("b");
    c = g.node(1, {b, w});
    d = g.node(1, {c, a});
    g.output(d);
    g.output(a);
    s = g.build();
    p = make_pipe_plan(s, cut_at(s, cuts_before({1, 2, 3})));
  }

  /// The codes after a change to the plan.
  template <class F>
  codes with(F change) const {
    auto q = p;
    change(q);
    return codes_of(findings_in_plan(s, q));
  }
};

}  // namespace

TEST_CASE("findings_in_plan: a valid pipe has no findings, with or without relays") {
  small const m;
  CHECK(findings_in_plan(m.s, m.p).empty());
  auto const relay = relayed(m.s, m.p, std::vector(m.p.edges.size(), route::relay));
  CHECK(relay.plan != m.p.plan);
  CHECK(findings_in_plan(m.s, relay).empty());

  testing::rng r(71);
  std::size_t relays = 0;
  auto const rounds = testing::cases(150, 500);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const s = testing::random_rich_graph(r, 1 + r.below(25));
    if (s.outputs.empty()) continue;
    std::vector<std::size_t> at;
    for (std::size_t n = 0; n < s.nodes(); ++n)
      if (r.one_in(4) && s.group[n] == n) at.push_back(n);
    auto parts = cut_at(s, cuts_before(at));
    for (std::size_t n = 0; n < s.nodes(); ++n) parts.of[n] = parts.of[s.group[n]];
    if (find_cycle_between_parts(s, parts)) continue;
    auto const p = make_pipe_plan(s, parts);
    REQUIRE(pipe_findings_text(findings_in_plan(s, p)) == "");
    auto const q = relayed(s, p, routes_of(s, p, {.beyond = {5, 5}}));
    REQUIRE(pipe_findings_text(findings_in_plan(s, q)) == "");
    relays += q != p;
  }
  CHECK(relays > rounds / 10);
}

TEST_CASE("findings_in_plan: reports each kind of damage to a valid plan under its code") {
  small const m;
  CHECK(m.with([](pipe_plan& p) { p.plan.stages[2].nodes.clear(); }).contains("node-missing"));
  CHECK(m.with([](pipe_plan& p) { p.plan.stages[2].nodes.clear(); }).contains("stage-empty"));
  CHECK(m.with([](pipe_plan& p) {
           p.plan.stages[3].nodes.insert(p.plan.stages[3].nodes.begin(), 0);
         }).contains("node-repeated"));
  CHECK(m.with([](pipe_plan& p) { p.plan.stages[0].nodes[0] = 77; }) == codes{"node-unknown"});
  CHECK(m.with([](pipe_plan& p) { p.plan.stages[0].outputs.push_back(77); }) == codes{"value-unknown"});
  CHECK(m.with([](pipe_plan& p) { p.plan.transfers[0].from = stage_id{9}; }) == codes{"stage-unknown"});
  CHECK(m.with([](pipe_plan& p) { p.plan.order.pop_back(); }) == codes{"stage-order"});
  CHECK(m.with([](pipe_plan& p) { std::swap(p.plan.order[2], p.plan.order[3]); }) ==
        codes{"stage-unordered", "transfer-backward"});
  CHECK(m.with([](pipe_plan& p) { p.number.pop_back(); }) == codes{"cut-numbers"});
  CHECK(m.with([](pipe_plan& p) { p.number[3] = p.number[1]; }) == codes{"cut-repeated"});
  CHECK(m.with([](pipe_plan& p) { p.edges.pop_back(); }) == codes{"edge-missing"});
  CHECK(m.with([](pipe_plan& p) { p.edges.push_back(p.edges[0]); }) == codes{"edge-repeated"});
  CHECK(m.with([](pipe_plan& p) { p.edges[1].to.push_back(stage_id{2}); }) == codes{"edge-unneeded"});
  CHECK(m.with([](pipe_plan& p) { p.plan.stages[1].state.clear(); }) == codes{"value-absent"});
  CHECK(m.with([&](pipe_plan& p) { p.plan.stages[0].state.push_back(m.w); }) == codes{"value-unused"});
  CHECK(m.with([&](pipe_plan& p) { p.plan.stages[1].state.push_back(m.w); }) == codes{"value-repeated"});
  CHECK(m.with([&](pipe_plan& p) { p.plan.stages[0].outputs.clear(); }).contains("output-missing"));
  CHECK(m.with([&](pipe_plan& p) { p.plan.stages[0].outputs.push_back(m.c); }).contains("output-foreign"));
  CHECK(m.with([](pipe_plan& p) { p.plan.transfers.pop_back(); }).contains("transfer-missing"));
  CHECK(m.with([](pipe_plan& p) {
           p.plan.transfers.push_back(p.plan.transfers[0]);
         }).contains("transfer-unneeded"));
  auto const cyclic =
      m.with([&](pipe_plan& p) { p.plan.transfers.push_back({m.d, stage_id{3}, stage_id{1}}); });
  CHECK(cyclic.contains("stage-cycle"));
  CHECK(cyclic.contains("transfer-backward"));
}

TEST_CASE("findings_in_plan: reports every fault of a plan, each with its place") {
  small const m;
  auto q = m.p;
  q.plan.stages[1].state.clear();
  q.plan.stages[2].state.clear();
  q.number[3] = q.number[0];
  auto const found = findings_in_plan(m.s, q);
  REQUIRE(found.size() == 3);
  CHECK(found[0] == pipe_finding{"value-absent",
                                 "node b (#1) in stage 1 needs value #1, which the stage does not have there",
                                 stage_id{1}, the_caller, 1, m.w});
  CHECK(found[1].stage == stage_id{2});
  CHECK(found[2] ==
        pipe_finding{"cut-repeated", "stages 0 and 3 have the same cut number", stage_id{0}, stage_id{3}});
  CHECK(pipe_findings_text({found[2]}) == "cut-repeated: stages 0 and 3 have the same cut number\n");
}

TEST_CASE("findings_in_plan: reports a relay stage that does not pass its value on") {
  small const m;
  auto const good = relayed(m.s, m.p, std::vector(m.p.edges.size(), route::relay));
  auto broken = good;
  std::erase(broken.plan.stages[1].outputs, m.a);  // stage 1 no longer passes it on
  auto const found = codes_of(findings_in_plan(m.s, broken));
  CHECK(found.contains("transfer-missing"));
  CHECK(found.contains("transfer-unneeded"));
  auto idle = good;
  for (auto& t : idle.plan.transfers)
    if (t.value == m.a && t.to == stage_id{3}) t.from = stage_id{0};  // bypasses stage 2, which receives it
  idle.edges = pipe_edges_of<std::uint32_t>(m.s, idle.plan);
  CHECK(codes_of(findings_in_plan(m.s, idle)).empty());  // the caller may want the unused output
}

TEST_CASE("findings_in_plan: reports a marker inside a stage and accepts a marker outside all stages") {
  testing::snapshot_builder g;
  auto const a = g.node(1, {g.input()});
  g.nodes(0, {}, {});
  g.name("cut");
  g.output(g.node(1, {a}));
  auto const s = g.build();
  cut_list list;
  list.points.push_back({cut_kind::marker, 1, 1});
  list.markers = {1};
  auto p = make_pipe_plan(s, cut_at(s, list));
  pipe_marks<std::uint32_t> const marks{.cuts = {1}};
  CHECK(findings_in_plan(s, p, marks).empty());
  CHECK(codes_of(findings_in_plan(s, p)) == codes{"node-missing"});
  p.plan.stages[1].nodes.insert(p.plan.stages[1].nodes.begin(), 1);
  auto const found = findings_in_plan(s, p, marks);
  CHECK(codes_of(found) == codes{"marker-left"});
  CHECK(found[0].message == "stage 1 has marker cut (#1); markers must not be in a stage");
}

TEST_CASE("findings_in_backward: reports lost gradients and a loss that no stage produces") {
  small const m;
  CHECK(findings_in_backward(m.s, m.p.plan, m.d).empty());
  CHECK(codes_of(findings_in_backward(m.s, m.p.plan, m.x)) == codes{"loss-missing"});
  CHECK(codes_of(findings_in_backward(m.s, m.p.plan, 99)) == codes{"loss-missing"});
  auto const root = planned_root_of<std::uint32_t>(m.s, m.p.plan);
  auto const good = make_backward_plan(root.root, root.made_at[m.d]);
  CHECK(findings_in_backward(m.s, m.p.plan, m.d, good).empty());
  auto lost = good;
  for (auto& place : lost.calls.back().outputs) place.gradient = none<std::uint32_t>;
  CHECK_FALSE(findings_in_backward(m.s, m.p.plan, m.d, lost).empty());
  lost = good;
  lost.calls.pop_back();
  CHECK(codes_of(findings_in_backward(m.s, m.p.plan, m.d, lost)) == codes{"backward-missing"});
}

TEST_CASE("findings_in_layouts: reports each value between stages that has no layout") {
  small const m;
  auto const known = pipe_dataflow_of(
      m.s, m.p, [](std::uint32_t) { return std::optional(value_layout{"f32", {std::int64_t{2}}}); });
  CHECK(findings_in_layouts(known).empty());
  auto const b_unknown = pipe_dataflow_of(m.s, m.p, [&](std::uint32_t v) {
    return v == m.b ? std::nullopt : std::optional(value_layout{"f32", {std::int64_t{2}}});
  });
  auto const found = findings_in_layouts(b_unknown);
  REQUIRE(found.size() == 1);
  CHECK(found[0].code == "layout-unknown");
  CHECK(found[0].value == m.b);
}

TEST_CASE("findings_in_state: reports untied replicas and state that is absent, unused or unknown") {
  small const m;
  basic_model_state<std::uint32_t> model;
  model.tensors = {{"w", "0"}, {"idle", "1"}};
  model.tensor.assign(m.s.values(), none<std::uint32_t>);
  model.tensor[m.w] = 0;
  auto const placed = assign_state(m.s, m.p.plan, model, {});
  CHECK(codes_of(findings_in_state(m.s, m.p.plan, model, placed)) == codes{"state-unused"});
  auto untied = placed;
  untied.replicas.clear();
  CHECK(codes_of(findings_in_state(m.s, m.p.plan, model, untied)) == codes{"state-unused", "state-untied"});
  auto absent = placed;
  absent.stages[1].clear();
  CHECK(codes_of(findings_in_state(m.s, m.p.plan, model, absent)).contains("state-absent"));
  auto short_list = placed;
  short_list.stages.pop_back();
  CHECK(codes_of(findings_in_state(m.s, m.p.plan, model, short_list)) == codes{"state-stages"});
  auto unknown = placed;
  unknown.stages[1][0].tensor = 5;
  CHECK(codes_of(findings_in_state(m.s, m.p.plan, model, unknown)) == codes{"state-unknown"});
}

TEST_CASE("findings_in_pipe: reports only unused state for pipes of random module graphs") {
  testing::rng r(72);
  std::size_t stages = 0;
  auto const rounds = testing::cases(60, 200);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto g = testing::random_module_graph(r, 1 + r.below(20));
    auto const p = make_module_pipe(
        g, {}, [&](auto const& s) { return cuts_by_policy(s, [&](std::size_t) { return r.one_in(4); }); });
    stages += p.plan.plan.stages.size();
    for (auto const& f : findings_in_pipe(p)) CHECK_MESSAGE(f.code == "state-unused", f.code, f.message);
  }
  CHECK(stages > rounds * 3 / 2);
}

TEST_CASE("findings_in_pipe: thousands of stages can share one parameter, and a missing reader is reported") {
  module_graph g;
  auto const add = [&](node_kind kind, std::string name, std::string target,
                       std::vector<module_graph::position> const& reads) {
    module_node n;
    n.kind = kind;
    n.name = std::move(name);
    n.target = std::move(target);
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  };
  auto const stages = testing::cases(4'000, 20'000);
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const w = add(node_kind::get_attr, "w", "w", {});
  auto last = add(node_kind::placeholder, "x", "x", {});
  for (std::size_t i = 0; i < stages; ++i) last = add(node_kind::call_function, "f", "f", {last, w});
  add(node_kind::output, "output", "output", {last});
  for (auto const shared : {shared_state::replicate, shared_state::transmit}) {
    auto p = make_module_pipe(g, {.state = {.shared = shared}}, [](auto const& s) {
      return cuts_by_policy(s, [](std::size_t) { return true; });
    });
    CHECK(p.paths.size() == stages);
    CHECK(codes_of(findings_in_pipe(p)).empty());
    auto& readers = shared == shared_state::replicate ? p.state.replicas.front().members.back().stage
                                                      : p.state.sent.front().to.back();
    readers = stage_id{0};  // omits the last reader
    CHECK(codes_of(findings_in_pipe(p)) ==
          codes{shared == shared_state::replicate ? "state-untied" : "state-absent"});
  }
}

TEST_CASE("findings_in_pipe: accepts the markers of the pipe and reports damage to its plan and loss") {
  module_graph g;
  module_node n;
  auto const add = [&](node_kind kind, char const* name, char const* target,
                       std::vector<module_graph::position> const& reads) {
    n.kind = kind;
    n.name = name;
    n.target = target;
    n.args.clear();
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(n);
  };
  auto const x = add(node_kind::placeholder, "x", "x", {});
  auto const a = add(node_kind::call_function, "a", "relu", {x});
  add(node_kind::call_function, "cut", "pipe_split", {});
  auto const b = add(node_kind::call_function, "b", "relu", {a});
  add(node_kind::output, "output", "output", {b});
  auto p = make_module_pipe(g);
  REQUIRE(p.plan.plan.stages.size() == 2);
  CHECK(findings_in_pipe(p).empty());
  auto const value_b = p.plan.plan.stages[1].outputs[0];
  CHECK(findings_in_pipe(p, value_b).empty());
  CHECK(codes_of(findings_in_pipe(p, 77)) == codes{"loss-missing"});
  p.plan.plan.transfers.clear();
  CHECK(codes_of(findings_in_pipe(p)).contains("transfer-missing"));
  p.plan.plan.stages[0].nodes = {99};
  CHECK(codes_of(findings_in_pipe(p, value_b)) == codes{"node-unknown"});
}

TEST_CASE("findings_in_plan: withstands random damage and reports it where no node is replicable") {
  testing::rng r(73);
  std::size_t damaged = 0;
  auto const rounds = testing::cases(800, 3000);
  for (std::size_t i = 0; i < rounds; ++i) {
    auto const s = testing::random_rich_graph(r, 2 + r.below(15));
    if (s.outputs.empty()) continue;
    auto parts = cut_at(s, cuts_before({s.nodes() / 3, s.nodes() * 2 / 3}));
    for (std::size_t n = 0; n < s.nodes(); ++n) parts.of[n] = parts.of[s.group[n]];
    if (find_cycle_between_parts(s, parts)) continue;
    auto const p = make_pipe_plan(s, parts);
    auto q = p;
    auto const some = [&](std::size_t below) { return static_cast<std::uint32_t>(r.below(below + 1)); };
    auto& stage = q.plan.stages[r.below(q.plan.stages.size())];
    std::vector<std::uint32_t>* const lists[] = {&stage.nodes, &stage.inputs, &stage.state, &stage.outputs};
    switch (r.below(5)) {
      case 0:
        if (!q.plan.transfers.empty())
          q.plan.transfers[0] = {some(s.values()), stage_id{some(3)}, stage_id{some(3)}};
        break;
      case 1:
        if (!q.edges.empty()) q.edges[0] = {some(s.values()), stage_id{some(3)}, {stage_id{some(3)}}};
        break;
      case 2:
        if (!q.plan.order.empty()) q.plan.order[0] = stage_id{some(3)};
        break;
      default:
        if (auto& list = *lists[r.below(4)]; r.one_in(2) && !list.empty())
          list.pop_back();
        else
          list.push_back(some(s.values()));
    }
    if (q == p) continue;
    ++damaged;
    auto const found = findings_in_plan(s, q);
    // Some changes to the place of a replicable node are legal.
    bool const copies = std::ranges::any_of(s.replicable, [](char c) { return c != 0; });
    if (!copies) CHECK_FALSE(found.empty());
  }
  CHECK(damaged > rounds / 3);
}
