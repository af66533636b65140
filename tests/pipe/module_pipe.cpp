// SPDX-License-Identifier: MIT
#include "cleave/pipe/module_pipe.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/result_structure.hpp"
#include "cleave/partition/slices/balance.hpp"
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

module_node marker() { return make(node_kind::call_function, "marker", "pipe_split"); }

template <class Graph>
concept can_be_cut = requires(Graph&& g) { make_module_pipe(static_cast<Graph&&>(g), {}); };
static_assert(can_be_cut<module_graph const&> && !can_be_cut<module_graph>);  // a temporary would dangle

/// `g` with markers and repeated reads of its attributes at random places.
module_graph with_markers(testing::rng& r, module_graph const& g) {
  module_graph marked;
  std::vector<position> at;
  for (position n = 0; n < g.list().size(); ++n) {
    bool const inner = g[n].kind != node_kind::placeholder;
    for (auto markers = r.below(5); inner && markers-- > 3;) marked.add(marker());
    module_node copy = g[n];
    for (auto& a : copy.args) a = map_nodes(std::move(a), [&](position v) { return at[v]; });
    for (auto& k : copy.kwargs) k.value = map_nodes(std::move(k.value), [&](position v) { return at[v]; });
    at.push_back(marked.add(std::move(copy)));
    for (position m = 0; m < n; ++m)
      if (g[m].kind == node_kind::get_attr && r.one_in(8)) at[m] = marked.add(g[m]);
  }
  for (auto const& a : g.attributes()) marked.add_attribute(a);
  return marked;
}

std::vector<testing::integer_value> inputs_of(module_graph const& g) {
  std::vector<testing::integer_value> inputs;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    inputs.push_back(testing::integer_value::computed(testing::fold(77, i)));
  return inputs;
}

bool agree(module_graph const& whole, module_graph const& other) {
  testing::integer_interpretation meaning;
  return evaluate(whole, inputs_of(whole), meaning) == evaluate(other, inputs_of(whole), meaning);
}

/// x -> f -> | -> g -> | -> h, all markers of one kind.
module_graph chain() {
  module_graph g;
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const f = g.add(call("f", {x}));
  g.add(marker());
  auto const h = g.add(call("g", {f}));
  g.add(marker());
  auto const i = g.add(call("h", {h, f}));
  g.add(make(node_kind::output, "output", "output", {i}));
  return g;
}

}  // namespace

TEST_CASE("make_module_pipe: the pipe computes the results of the program, and no stage contains a marker") {
  testing::rng r(31);
  for (int round = 0; round < 400; ++round) {
    auto const g = with_markers(r, testing::random_module_graph(r, 1 + r.below(14), r.below(3) * r.below(2)));
    try {
      auto const p = make_module_pipe(g);
      CHECK(agree(g, p.outer));
      for (std::uint32_t i = 0; i < p.paths.size(); ++i)
        for (auto const& n : p.stage(stage_id{i}).list()) CHECK(n.target != "pipe_split");
    } catch (error const& e) {
      FAIL_CHECK(std::string(e.what()));
    }
  }
}

TEST_CASE("make_module_pipe: markers and module cuts combine with a policy or balance and keep the results") {
  testing::rng r(32);
  for (int round = 0; round < 200; ++round) {
    auto const g = with_markers(r, testing::random_module_graph(r, 2 + r.below(14)));
    module_pipe_options options{.cuts = {{"linear"}, {"a.b.c", module_side::end}}};
    auto const by_policy = make_module_pipe(g, options, [&](auto const& s) {
      return cuts_by_policy(static_cast<snapshot_arrays const&>(s),
                            [&](std::size_t n) { return n % 3 == 0; });
    });
    CHECK(agree(g, by_policy.outer));
    auto const balanced = make_module_pipe(g, options, [](auto s) {
      s.weight.assign(s.nodes(), 1);
      return balance(static_cast<snapshot_arrays const&>(s), 3);
    });
    CHECK(agree(g, balanced.outer));
    auto const markers = make_module_pipe(g).paths.size();
    CHECK(by_policy.paths.size() >= markers);
    CHECK(balanced.paths.size() >= markers);
  }
}

TEST_CASE("make_module_pipe: leaves the program unchanged and makes the same plan when called again") {
  auto const g = chain();
  auto const before = std::vector<module_node>(g.list().begin(), g.list().end());
  module_pipe_options const options{.cuts = {}};
  auto const one = make_module_pipe(g, options), other = make_module_pipe(g, options);
  CHECK(one.plan == other.plan);
  CHECK(std::vector<module_node>(g.list().begin(), g.list().end()) == before);
  CHECK(one.paths == std::vector<std::string>{"stage_0", "stage_1", "stage_2"});
}

TEST_CASE("make_module_pipe: sends a value directly to each stage that reads it") {
  auto const g = chain();
  auto const p = make_module_pipe(g);
  REQUIRE(p.plan.edges.size() == 4);
  CHECK(p.plan.edges[1].to == std::vector<stage_id>{stage_id{1}, stage_id{2}});
  CHECK(skips_stages(p.plan.edges[1]));
  auto const& last = p.outer[*p.outer.output() - 1];
  CHECK(last.target == "stage_2");
  CHECK(last.after.size() == 2);
}

TEST_CASE("make_module_pipe: merges several reads of one path into one state value of the stage") {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const w = g.add(make(node_kind::get_attr, "w", "w"));
  auto const again = g.add(make(node_kind::get_attr, "w_1", "w"));
  auto const f = g.add(call("f", {x, w, again}));
  auto const third = g.add(make(node_kind::get_attr, "w_2", "w"));
  g.add(make(node_kind::output, "output", "output", {f, third}));
  auto const p = make_module_pipe(g);
  CHECK(p.plan.plan.stages[0].state.size() == 1);
  CHECK(p.plan.plan.stages[0].outputs.size() == 2);
  CHECK(agree(g, p.outer));
}

TEST_CASE("make_module_pipe: sets the gradient mode again in each stage that runs under it") {
  module_graph g;
  auto const mode = [&](bool on) {
    auto n = make(node_kind::call_function, on ? "on" : "off", "torch._C._set_grad_enabled");
    n.args = {{on}};
    g.add(n);
  };
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  mode(false);
  auto const f = g.add(call("f", {x}));
  g.add(marker());
  auto const h = g.add(call("g", {f}));
  mode(true);
  auto const i = g.add(call("h", {h}));
  g.add(make(node_kind::output, "output", "output", {i}));
  auto const p = make_module_pipe(g);
  REQUIRE(p.paths.size() == 2);
  std::vector<std::string> second;
  for (auto const n : p.stage(stage_id{1}).nodes()) second.push_back(p.stage(stage_id{1})[n].target);
  CHECK(second ==
        std::vector<std::string>{"torch._C._set_grad_enabled", "g", "torch._C._set_grad_enabled", "h"});
}

TEST_CASE("make_module_pipe: treats a region as an ordinary node and moves its body with it") {
  module_graph body;
  auto const inner = body.add(make(node_kind::placeholder, "a", "a"));
  auto const made = body.add(call("k", {inner}));
  body.add(make(node_kind::output, "output", "output", {made}));
  module_graph g;
  g.add_attribute({"body", module_attribute::kind::module, {}, {body}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const f = g.add(call("f", {x}));
  g.add(marker());
  auto const held = g.add(make(node_kind::get_attr, "body", "body"));
  auto const wrapped = g.add(call("wrap_with_set_grad_enabled", {held, f}));
  g.add(make(node_kind::output, "output", "output", {wrapped}));
  auto const p = make_module_pipe(g);
  REQUIRE(p.paths.size() == 2);
  CHECK(p.plan.plan.stages[0].state.empty());
  auto const* a = p.stage(stage_id{1}).find_attribute("body");
  REQUIRE(a != nullptr);
  CHECK(a->body.size() == 1);
  CHECK(agree(g, p.outer));
}

TEST_CASE("make_module_pipe: rejects a marker inside a body and names the node that holds the body") {
  module_graph inner;
  inner.add(marker());
  module_graph body;
  body.add_attribute({"inner", module_attribute::kind::module, {}, {inner}, {}, {}});
  module_graph g;
  g.add_attribute({"body", module_attribute::kind::module, {}, {body}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const held = g.add(make(node_kind::get_attr, "the_body", "body"));
  auto const loop = g.add(call("while_loop", {held, x}));
  g.add(make(node_kind::output, "output", "output", {loop}));
  CHECK_THROWS_WITH_AS(make_module_pipe(g),
                       "marker 'marker' is in the body of node 'the_body'; cuts must lie between nodes of "
                       "the program itself: cut before or after that node, or inline the body",
                       body_cut_error);
}

TEST_CASE("make_module_pipe: rejects a cut at a module inside a body and accepts one at a called module") {
  module_graph body;
  auto const a = body.add(make(node_kind::placeholder, "a", "a"));
  body.add(make(node_kind::output, "output", "output", {a}));
  module_graph g;
  g.add_attribute({"blk", module_attribute::kind::module, {}, {body}, {}, {}});
  g.add_attribute({"spare", module_attribute::kind::module, {}, {}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const one = g.add(make(node_kind::call_module, "blk", "blk", {x}));
  auto const two = g.add(make(node_kind::call_module, "blk_1", "blk", {one}));
  g.add(make(node_kind::output, "output", "output", {two}));
  CHECK_THROWS_AS(make_module_pipe(g, {.cuts = {{"blk.up"}}}), body_cut_error);
  CHECK_THROWS_AS(make_module_pipe(g, {.cuts = {{"bulk"}}}), unknown_module_error);
  auto const p = make_module_pipe(g, {.cuts = {{"blk"}, {"spare"}}});
  CHECK(p.paths.size() == 2);
  CHECK(p.plan.idle.size() == 2);  // nothing precedes the first call of blk; spare is never called
}

TEST_CASE("make_module_pipe: a module with two names can be cut under either name") {
  module_graph g;
  for (auto const* path : {"a", "b", "alias"})
    g.add_attribute({path, module_attribute::kind::module, path == std::string("b") ? "1" : "0", {}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const b = g.add(make(node_kind::call_module, "b", "b", {x}));
  auto const a = g.add(make(node_kind::call_module, "a", "a", {b}));
  auto const c = g.add(make(node_kind::call_module, "b_1", "b", {a}));
  g.add(make(node_kind::output, "output", "output", {c}));
  CHECK(make_module_pipe(g, {.cuts = {{"a"}, {"alias", module_side::end}}}).paths.size() == 3);
}

TEST_CASE("make_module_pipe: rejects a program without output, and two cut sources where one is allowed") {
  module_graph g;
  g.add(call("f", {g.add(make(node_kind::placeholder, "x", "x"))}));
  CHECK_THROWS_AS(make_module_pipe(g), no_output_error);
  auto const c = chain();
  auto const nothing = [](auto const&) { return cut_list(); };
  module_pipe_options const one{.cuts = {{"nowhere"}}, .sources = cut_sources::one};
  CHECK_THROWS_AS(make_module_pipe(c, one, nothing), cut_source_error);
  CHECK_THROWS_AS(make_module_pipe(c, one), unknown_module_error);
}

TEST_CASE("make_module_pipe: a program without operations has no stages") {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = g.add(make(node_kind::placeholder, "x", "x"));
  auto const w = g.add(make(node_kind::get_attr, "w", "w"));
  g.add(make(node_kind::output, "output", "output", {x, w}));
  auto const p = make_module_pipe(g);
  CHECK(p.paths.empty());
  CHECK(agree(g, p.outer));
}

TEST_CASE("make_module_pipe: a nested result keeps its structure") {
  auto g = chain();
  module_argument const structure{container{container::kind::dict, 1}, std::string("y"),
                                  container{container::kind::list, 1}, token()};
  auto const shaped = with_result_structure(g, structure);
  auto const p = make_module_pipe(shaped);
  CHECK(agree(shaped, p.outer));
  CHECK_FALSE(agree(g, p.outer));
}
