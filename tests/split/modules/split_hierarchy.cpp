// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_hierarchy.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cleave/backward/ties.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/pipe/pytree.hpp"
#include "cleave/split/modules/liveness.hpp"
#include "cleave/split/modules/wrapped_stage.hpp"
#include "support/cases.hpp"
#include "support/element_interpretation.hpp"
#include "support/random_module_tree.hpp"
#include "support/small_stack.hpp"

using namespace cleave;

using namespace cleave::detail;
using testing::element_interpretation;
using testing::integer_value;

namespace {

std::vector<integer_value> inputs_of(module_graph const& g) {
  std::vector<integer_value> inputs;
  for (auto const n : g.inputs()) inputs.push_back(integer_value::computed(testing::mix(n + 1)));
  return inputs;
}

std::vector<std::vector<level_call>> runs_of(split_hierarchy_result const& r) {
  std::vector<std::vector<level_call>> runs;
  for (auto const& stage : r.stages) runs.push_back(stage.runs);
  return runs;
}

/// Runs the stages one after another; values between stages are sent as leaves and text.
integer_value piped(module_graph const& outer, std::vector<integer_value> const& inputs,
                    element_interpretation& meaning) {
  return evaluate_stages(outer, liveness_of(outer), inputs, meaning,
                         [](std::size_t, integer_value const& sent) {
                           std::vector<module_argument> list;
                           std::vector<integer_value> tensors, received;
                           for (auto const& v : *sent.items) list.push_back(testing::sent_value(v, tensors));
                           auto const back = tree_unflatten(tree_flatten(list));
                           for (std::size_t at = 1; at < back.size();)
                             received.push_back(testing::received_value(back, at, tensors));
                           return received;
                         });
}

bool same(module_graph const& a, module_graph const& b) {
  if (!std::ranges::equal(a.list(), b.list()) || a.attributes().size() != b.attributes().size()) return false;
  for (std::size_t i = 0; i < a.attributes().size(); ++i) {
    auto const &x = a.attributes()[i], &y = b.attributes()[i];
    if (x.path != y.path || x.original != y.original || x.body.size() != y.body.size()) return false;
    if (!x.body.empty() && !same(x.body.front(), y.body.front())) return false;
  }
  return true;
}

module_node node(node_kind kind, std::string const& name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  return n;
}

module_attribute module_of(std::string const& path, module_graph const* body = nullptr) {
  module_attribute a{path, module_attribute::kind::module, {}, {}, {}, {}};
  if (body) a.body.push_back(*body);
  return a;
}

/// x → each of `modules` in a row → output.
module_graph row(std::vector<module_attribute> const& modules) {
  module_graph g;
  auto last = g.add(node(node_kind::placeholder, "x"));
  for (auto const& m : modules) {
    last = g.add(node(node_kind::call_module, m.path, {node_argument(last)}));
    if (!g.find_attribute(m.path)) g.add_attribute(m);
  }
  g.add(node(node_kind::output, "output", {node_argument(last)}));
  return g;
}

std::vector<std::string> labels(split_hierarchy_result const& r, std::size_t stage) {
  std::vector<std::string> list;
  for (auto const& run : r.stages[stage].runs) list.push_back(label(r.cut, run));
  return list;
}

}  // namespace

TEST_CASE("split_hierarchy: stages match the cuts and do the same work as the whole, in the same order") {
  testing::rng random(11);
  std::size_t deep = 0, several = 0;
  auto const rounds = testing::cases(150, 1500);
  for (std::size_t round = 0; round < rounds; ++round) {
    testing::random_module_tree tree(random, 6, 1 + random.below(4));
    auto const before = tree.root;
    auto const cuts = tree.cuts();
    CAPTURE(round);
    auto const elements = round % 2 == 0 ? element_reading::by_maker : element_reading::by_reader;
    auto const r = split_hierarchy(tree.root, cuts, {.elements = elements});
    REQUIRE(runs_of(r) == stages_of(r.cut));

    auto const inputs = inputs_of(tree.root);
    element_interpretation whole, split, one_by_one;
    auto const expected = evaluate(tree.root, inputs, whole);
    REQUIRE(evaluate(r.outer, inputs, split) == expected);
    REQUIRE(piped(r.outer, inputs, one_by_one) == expected);
    // The split does the same work in the same order, not only with the same result.
    REQUIRE(split.work() == whole.work());
    REQUIRE(one_by_one.work() == whole.work());
    REQUIRE(same(before, tree.root));
    deep += r.cut.levels.size() > 2;
    several += r.stages.size() > 2;
  }
  CHECK(deep > rounds / 5);
  CHECK(several > rounds / 5);
}

TEST_CASE("split_hierarchy: order and repetition of cuts do not change the stages") {
  testing::rng random(12);
  for (std::size_t round = 0; round < testing::cases(40, 200); ++round) {
    testing::random_module_tree tree(random, 5, 3);
    auto cuts = tree.cuts();
    auto const runs = runs_of(split_hierarchy(tree.root, cuts));
    std::ranges::reverse(cuts);
    cuts.push_back(cuts.front());
    CHECK(runs_of(split_hierarchy(tree.root, cuts)) == runs);
  }
}

TEST_CASE("split_hierarchy: dropping unread work keeps the result and the order of the remaining work") {
  testing::rng random(13);
  std::size_t dropped = 0;
  auto const rounds = testing::cases(80, 300);
  for (std::size_t round = 0; round < rounds; ++round) {
    testing::random_module_tree tree(random, 5, 3);
    auto const cuts = tree.cuts();
    auto const kept = split_hierarchy(tree.root, cuts);
    auto const r = split_hierarchy(tree.root, cuts, {.unread = unread_work::dropped});
    auto const inputs = inputs_of(tree.root);
    element_interpretation whole, split;
    REQUIRE(evaluate(r.outer, inputs, split) == evaluate(tree.root, inputs, whole));
    std::vector<level_call> all;
    for (auto const& stage : kept.stages) all.insert(all.end(), stage.runs.begin(), stage.runs.end());
    auto at = all.begin();
    std::size_t left = 0;
    for (auto const& stage : r.stages)
      for (auto const& run : stage.runs) {
        at = std::find(at, all.end(), run);
        REQUIRE(at != all.end());
        ++at;
        ++left;
      }
    dropped += all.size() - left;
    CHECK(r.stages.size() <= kept.stages.size());  // fewer if a stage had only unread work
  }
  CHECK(dropped > rounds / 6);
}

TEST_CASE("split_hierarchy: the stage that makes a tuple extracts its elements, unless by_reader is set") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const a = g.add(node(node_kind::call_module, "a", {node_argument(x)}));
  auto element = node(node_kind::call_function, "getitem", {node_argument(a), {std::int64_t{1}}});
  auto const e = g.add(std::move(element));
  auto const b = g.add(node(node_kind::call_module, "b", {node_argument(e)}));
  g.add(node(node_kind::output, "output", {node_argument(b)}));
  for (auto const* path : {"a", "b"}) g.add_attribute(module_of(path));
  auto const has_reading = [](module_graph const& piece) {
    return std::ranges::count(piece.list(), "getitem", &module_node::target) == 1;
  };
  auto const r = split_hierarchy(g, {"a"});
  CHECK(has_reading(r.graph(r.stages[0])));
  auto const s = split_hierarchy(g, {"a"}, {.elements = element_reading::by_reader});
  CHECK(has_reading(s.graph(s.stages[1])));
}

TEST_CASE("split_hierarchy: each stage reads all its inputs and state, and the outer graph sends no state") {
  testing::rng random(14);
  for (std::size_t round = 0; round < testing::cases(80, 300); ++round) {
    testing::random_module_tree tree(random, 5, 3);
    auto const r = split_hierarchy(tree.root, tree.cuts());
    for (auto const& stage : r.stages) {
      auto const& g = r.graph(stage);
      std::vector<char> read(g.list().size());
      for (auto const n : g.nodes())
        for (auto const v : g.operands(n)) read[v] = 1;
      for (auto const v : g.outputs()) read[v] = 1;
      for (auto const v : g.inputs()) CHECK(read[v]);
      for (auto const v : g.state()) CHECK(read[v]);
    }
    for (auto const n : r.outer.nodes())
      for (auto const v : r.outer.operands(n)) CHECK(r.outer[v].kind != node_kind::get_attr);
  }
}

TEST_CASE("split_hierarchy: accepts a cut after the last node of a level, at any depth") {
  auto const inner = row({module_of("a"), module_of("b")});
  auto const middle = row({module_of("inner", &inner)});
  auto const g = row({module_of("middle", &middle), module_of("post")});
  for (std::string const cut : {"middle.inner.b", "middle.inner", "middle"}) {
    auto const r = split_hierarchy(g, {cut});
    REQUIRE(r.stages.size() == 2);
    CHECK(labels(r, 1) == std::vector<std::string>{":post"});
  }
  CHECK(split_hierarchy(g, {"post"}).stages.size() == 1);
}

TEST_CASE("split_hierarchy: cuts a module called twice at each call, and both stages hold its state") {
  auto body = row({module_of("a"), module_of("b")});
  body.add_attribute({"a.weight", module_attribute::kind::parameter, "w", {}, {}, {}});
  auto const g = row({module_of("body", &body), module_of("mid"), module_of("body", &body)});
  auto const r = split_hierarchy(g, {"body.a"});
  REQUIRE(r.stages.size() == 3);
  CHECK(labels(r, 0) == std::vector<std::string>{"body:a"});
  CHECK(labels(r, 1) == std::vector<std::string>{"body:b", ":mid", "body:a"});
  CHECK(labels(r, 2) == std::vector<std::string>{"body:b"});
  auto const ties = ties_of(state_of_stages(r.outer), tie_scope::stages);
  REQUIRE(ties.size() == 1);
  CHECK(ties[0].members.size() == 2);
  CHECK(ties[0].members[1].stage == stage_id{1});

  auto const fault = find_module_cut_fault(g, {"body.a"}, {.repeated = repeated_runs::refused});
  REQUIRE(fault);
  CHECK(fault->what == module_cut_fault::kind::repeated);
  CHECK(fault->at == "body");
}

TEST_CASE("split_hierarchy: keeps user modules that are named like stages") {
  auto const body = row({module_of("a"), module_of("b")});
  auto const g = row({module_of("submod_0"), module_of("body", &body), module_of("submod_1")});
  auto const r = split_hierarchy(g, {"body.a"});
  REQUIRE(r.stages.size() == 2);
  auto const& first = r.graph(r.stages[0]);
  CHECK(first.find_attribute("submod_0")->original == "submod_0");
  CHECK(first.find_attribute("submod_0_")->original.empty());
  CHECK(first.find_attribute("submod_0_")->body.size() == 1);
}

TEST_CASE("split_hierarchy: a node records which node of its level it copies") {
  auto const body = row({module_of("a"), module_of("b")});
  auto const g = row({module_of("body", &body), module_of("post")});
  auto const r = split_hierarchy(g, {"body.a"});
  auto const& last = r.graph(r.stages[1]);
  auto const post = std::ranges::find(last.list(), "post", &module_node::name);
  REQUIRE(post != last.list().end());
  CHECK(g[post->from].name == "post");
}

TEST_CASE("split_hierarchy: rejects a call whose target is not registered") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const a = g.add(node(node_kind::call_module, "a", {node_argument(x)}));
  g.add(node(node_kind::output, "output", {node_argument(a)}));
  CHECK_THROWS_AS(split_hierarchy(g, {"a"}), missing_target_error);
}

TEST_CASE("split_hierarchy: handles 200 nested levels on a small stack") {
  testing::on_small_stack([] {
    auto g = row({module_of("a"), module_of("b")});
    std::string path = "a";
    for (int depth = 0; depth < 200; ++depth) {
      g = row({module_of("m", &g), module_of("n")});
      path = "m." + path;
    }
    auto const r = split_hierarchy(g, {path});
    CHECK(r.stages.size() == 2);
    CHECK(r.stages[1].runs.size() == 201);
    element_interpretation meaning;
    auto const stage = r.graph(r.stages[0]);
    CHECK(stage.list().size() == 3);
  });
}
