// SPDX-License-Identifier: MIT
#include "cleave/pipe/module_gradients.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/module_pipe.hpp"
#include "support/integer_interpretation.hpp"
#include "support/module_nodes.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

namespace {

using position = module_graph::position;

using testing::make;

module_node call(std::string name, std::vector<position> reads) {
  return make(node_kind::call_function, name, name, std::move(reads));
}

module_node mode(bool on) {
  auto n = make(node_kind::call_function, on ? "on" : "off", "torch._C._set_grad_enabled");
  n.args = {{on}};
  return n;
}

/// True if the value of the node `name` needs a gradient.
bool needs(module_graph const& g, std::string const& name, module_gradient_options const& options = {}) {
  auto const p = program_of(g);
  auto const need = gradient_need_of(p, options);
  for (std::uint32_t v = 0; v < need.size(); ++v)
    if (g[p.s.value[v]].name == name) return need[v] != 0;
  FAIL(name);
  return false;
}

/// A mask is made before a cut and read after it. A check of the first stage's value also follows the cut.
module_graph masked() {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const ids = g.add(make(node_kind::placeholder, "ids", "ids"));
  auto const w = g.add(make(node_kind::get_attr, "w", "w"));
  auto const mask = g.add(call("mask", {ids}));
  auto const f = g.add(call("f", {ids, w}));
  g.add(make(node_kind::call_function, "cut", "pipe_split"));
  g.add(call("check", {f}));
  auto const h = g.add(call("h", {f, mask}));
  g.add(make(node_kind::output, "output", "output", {h}));
  return g;
}

std::vector<std::string> names(module_graph const& g) {
  std::vector<std::string> list;
  for (auto const n : g.nodes()) list.push_back(g[n].name);
  return list;
}

}  // namespace

TEST_CASE("gradient_need_of: values that depend on a parameter need a gradient unless it is frozen") {
  auto const g = masked();
  CHECK(needs(g, "f"));
  CHECK(needs(g, "h"));
  CHECK_FALSE(needs(g, "mask"));
  CHECK_FALSE(needs(g, "ids"));
  module_graph frozen;
  frozen.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {{"requires_grad", {false}}}});
  for (auto const& n : g.list()) frozen.add(n);
  CHECK_FALSE(needs(frozen, "h"));
}

TEST_CASE("gradient_need_of: a marked input needs a gradient unless the options exclude inputs") {
  module_graph g;
  auto x = make(node_kind::placeholder, "x", "x");
  x.metadata = {{"requires_grad", {true}}};
  auto const f = g.add(call("f", {g.add(x)}));
  g.add(make(node_kind::output, "output", "output", {f}));
  CHECK(needs(g, "f"));
  CHECK_FALSE(needs(g, "f", {.inputs = input_need::none}));
}

TEST_CASE("gradient_need_of: no-grad modes and regions, detach and integer values stop a gradient") {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const w = g.add(make(node_kind::get_attr, "w", "w"));
  g.add(mode(false));
  auto const off = g.add(call("under_off", {w}));
  g.add(mode(true));
  auto const on = g.add(call("under_on", {w}));
  auto region = make(node_kind::call_function, "region", "wrap_with_set_grad_enabled");
  region.args = {{false}, node_argument(on)};
  auto const held = g.add(region);
  region.name = "open_region";
  region.args[0] = {true};
  auto const open = g.add(region);
  auto const cut_off = g.add(make(node_kind::call_function, "cut_off", "detach", {on}));
  auto whole = call("whole", {on});
  whole.metadata = {{"dtype", {std::string("i64")}}};
  auto const counted = g.add(whole);
  g.add(make(node_kind::output, "output", "output", {off, on, held, open, cut_off, counted}));
  CHECK(needs(g, "under_on"));
  CHECK(needs(g, "open_region"));
  for (auto const* name : {"under_off", "region", "cut_off", "whole"}) CHECK_FALSE(needs(g, name));
}

TEST_CASE("sink_non_differentiable: moves nodes without gradient to their reader, but no node with effects") {
  auto const g = masked();
  auto const plain = make_module_pipe(g);
  CHECK(plain.plan.plan.stages[1].inputs.size() == 2);
  auto const p = make_module_pipe(g, {}, no_policy{}, sink_non_differentiable{});
  CHECK(names(p.stage(stage_id{0})) == std::vector<std::string>{"f", "check"});
  CHECK(names(p.stage(stage_id{1})) == std::vector<std::string>{"mask", "h"});
  CHECK(p.plan.plan.transfers.size() == 1);
  auto const borders = boundary_values(p.plan, gradient_need_of(p.program));
  REQUIRE(borders[1].size() == 2);
  CHECK(std::ranges::count(borders[1], true, &boundary_value::needs_gradient) == 1);
  for (auto const& b : borders[1]) CHECK(b.needs_gradient == (g[p.program.s.value[b.value]].name == "f"));
}

TEST_CASE("sink_non_differentiable: does not move a node that writes in place") {
  module_graph g;
  g.add_attribute({"steps", module_attribute::kind::buffer, {}, {}, {}, {}});
  auto const steps = g.add(make(node_kind::get_attr, "steps", "steps"));
  auto const more = g.add(call("add_", {steps}));
  g.add(make(node_kind::call_function, "cut", "pipe_split"));
  auto const f = g.add(call("f", {more}));
  g.add(make(node_kind::output, "output", "output", {f}));
  CHECK(names(make_module_pipe(g, {}, no_policy{}, sink_non_differentiable{}).stage(stage_id{0})) ==
        std::vector<std::string>{"add_"});
}

TEST_CASE("sink_non_differentiable: a pipe with moved nodes computes the results of the program") {
  testing::rng r(63);
  for (int round = 0; round < 300; ++round) {
    auto const g = testing::random_module_graph(r, 2 + r.below(14));
    auto const cuts = [&](auto const& s) {
      return cuts_by_policy(static_cast<snapshot_arrays const&>(s),
                            [&](std::size_t n) { return n % 4 == 3; });
    };
    auto const p = make_module_pipe(g, {}, cuts, sink_non_differentiable{});
    std::vector<testing::integer_value> inputs;
    for (std::size_t i = 0; i < g.inputs().size(); ++i)
      inputs.push_back(testing::integer_value::computed(testing::fold(9, i)));
    testing::integer_interpretation meaning;
    CHECK(evaluate(g, inputs, meaning) == evaluate(p.outer, inputs, meaning));
  }
}
