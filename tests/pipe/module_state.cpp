// SPDX-License-Identifier: MIT
#include "cleave/pipe/module_pipe.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/core/ids.hpp"
#include "cleave/graph/interpreter.hpp"
#include "cleave/graph/module_graph.hpp"
#include "cleave/partition/named/cut_points.hpp"
#include "cleave/split/check_plan.hpp"
#include "cleave/split/modules/outline.hpp"
#include "cleave/split/state/check_state.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using position = module_graph::position;
using attribute = module_attribute::kind;

/// Evaluates all names of a tied tensor to the same value.
struct tied_interpretation : integer_interpretation {
  value attribute(module_graph const& g, position n) const {
    auto const* a = g.find_attribute(g[n].target);
    if (a && !a->storage.empty()) return value::computed(fnv("storage:" + a->storage));
    return integer_interpretation::attribute(g, n);
  }
};

integer_value value_of(module_graph const& g) {
  std::vector<integer_value> inputs;
  for (std::size_t i = 0; i < g.inputs().size(); ++i) inputs.push_back(integer_value::computed(fold(7, i)));
  tied_interpretation meaning;
  return evaluate(g, inputs, meaning);
}

/// A random program with parameters, buffers and constants. Some are tied, some unread.
module_graph random_model(rng& random) {
  auto const plain = random_module_graph(random, 2 + random.below(20));
  module_graph g;
  for (auto n : plain.list()) g.add(std::move(n));
  auto const add = [&](module_attribute a) {
    if (a.what != attribute::module) {
      a.what = static_cast<attribute>(1 + random.below(2));
      if (random.one_in(2)) a.storage = "s", a.what = attribute::parameter;
      if (a.what == attribute::buffer && random.one_in(2)) a.metadata = {{"persistent", {false}}};
    }
    g.add_attribute(std::move(a));
  };
  for (auto const& a : plain.attributes()) add(a);
  add({"other.w", attribute::parameter, {}, {}, {}, {}});
  return g;
}

module_pipe random_pipe(rng& random, module_graph const& g, state_options const& state) {
  auto const policy = [&](auto const& s) {
    return cuts_by_policy(static_cast<snapshot_arrays const&>(s),
                          [&](std::size_t) { return random.one_in(4); });
  };
  return make_module_pipe(g, {.state = state, .writes = write_rule::none}, policy);
}

}  // namespace

TEST_CASE("make_module_pipe: the stages together hold the state of the model and compute its results") {
  rng random(5150);
  for (int round = 0; round < 300; ++round) {
    auto g = random_model(random);
    state_options state;
    if (random.one_in(2)) state.shared = shared_state::transmit;
    if (random.one_in(3)) state.by_name = {{"w", shared_state::transmit}};
    if (state.shared == shared_state::replicate)  // belongs to a called module and is never sent
      g.add_attribute({"layer.0.w", attribute::parameter, {}, {}, {}, {}});
    auto const p = random_pipe(random, g, state);
    CAPTURE(round);
    CHECK(value_of(p.outer) == value_of(g));

    std::map<std::string, module_attribute const*> together;
    std::map<std::string, std::set<std::uint32_t>> holders;
    for (std::uint32_t i = 0; i < p.paths.size(); ++i)
      for (auto const& a : p.stage(stage_id{i}).attributes()) {
        if (a.what == attribute::module) continue;
        auto const* original = g.find_attribute(a.path);
        REQUIRE(original);
        CHECK(a.original == a.path);
        CHECK(a.what == original->what);
        CHECK(a.storage == original->storage);
        CHECK(state_kind_of(a) == state_kind_of(*original));
        together[a.path] = original;
        holders[a.storage.empty() ? a.path : a.storage].insert(i);
      }
    for (auto const t : p.state.unused) CHECK(together.emplace(p.model.tensors[t].name, nullptr).second);
    std::size_t names = 0;
    for (auto const& a : g.attributes()) names += a.what != attribute::module;
    CHECK(together.size() == names);
    if (state.shared == shared_state::transmit)
      for (auto const& [storage, stages] : holders) CHECK(stages.size() == 1);

    snapshot_arrays const& flat = p.program.s;
    CHECK_FALSE(find_plan_fault(flat, p.plan.plan));
    for (auto const& f : state_faults(flat, p.plan.plan, p.model, p.state))
      CHECK(f.what == state_fault::kind::unused);
    for (std::uint32_t i = 0; i < p.paths.size(); ++i)
      CHECK(value_of(outlined(p.stage(stage_id{i}))) == value_of(p.stage(stage_id{i})));
  }
}

TEST_CASE("make_module_pipe: rejects a read of a buffer that another stage writes in place") {
  module_graph g;
  auto const add = [&](node_kind kind, std::string target, std::vector<position> reads = {}) {
    module_node n;
    n.kind = kind;
    n.target = n.name = std::move(target);
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  };
  g.add_attribute({"steps", attribute::buffer, {}, {}, {}, {}});
  auto const x = add(node_kind::placeholder, "x"), steps = add(node_kind::get_attr, "steps");
  add(node_kind::call_function, "add_", {steps, x});
  add(node_kind::call_function, "pipe_split");
  auto const y = add(node_kind::call_function, "mul", {x, steps});
  add(node_kind::output, "output", {y});
  try {
    make_module_pipe(g);
    FAIL("a buffer that another stage writes was read");
  } catch (state_error const& e) {
    CHECK(e.witness ==
          state_fault{state_fault::kind::written_elsewhere, "steps", "steps", stage_id{0}, stage_id{1}});
  }
  CHECK(make_module_pipe(g, {.writes = write_rule::none}).state.replicas.size() == 1);
  CHECK_FALSE(writes_in_place(g[y]));
  auto n = g[y];
  n.target = "__init__";
  CHECK_FALSE(writes_in_place(n));
}

TEST_CASE("make_module_pipe: a stage holds the state of the modules that it calls, submodules included") {
  module_graph g;
  auto const add = [&](node_kind kind, std::string target, std::vector<position> reads = {}) {
    module_node n;
    n.kind = kind;
    n.target = n.name = std::move(target);
    for (auto const v : reads) n.args.push_back(node_argument(v));
    return g.add(std::move(n));
  };
  for (auto const* path : {"a", "a.inner", "ab"}) g.add_attribute({path, attribute::module, {}, {}, {}, {}});
  for (auto const* path : {"a.w", "ab.w", "a.inner.b"})
    g.add_attribute({path, attribute::parameter, {}, {}, {}, {}});
  auto const x = add(node_kind::placeholder, "x"), y = add(node_kind::call_module, "a", {x});
  add(node_kind::call_function, "pipe_split");
  auto const z = add(node_kind::call_module, "ab", {y});
  add(node_kind::output, "output", {z});
  auto const p = make_module_pipe(g);
  CHECK(p.state.stages == std::vector<std::vector<held_state>>{{{0, true}, {2, true}}, {{1, true}}});
  CHECK(p.stage(stage_id{0}).find_attribute("a.inner.b"));
  CHECK_FALSE(p.stage(stage_id{1}).find_attribute("a.w"));
}

TEST_CASE("model_state_of: lists the registered tensors of a program by kind") {
  module_graph g;
  g.add_attribute({"p", attribute::parameter, {}, {}, {}, {}});
  g.add_attribute({"b", attribute::buffer, {}, {}, {}, {}});
  g.add_attribute({"u", attribute::buffer, {}, {}, {}, {{"persistent", {false}}}});
  g.add_attribute({"c", attribute::tensor, {}, {}, {}, {}});
  g.add_attribute({"m", attribute::module, {}, {}, {}, {}});
  std::vector<state_kind> kinds;
  for (auto const& t : model_state_of(program_of(g)).tensors) kinds.push_back(t.what);
  CHECK(kinds == std::vector{state_kind::parameter, state_kind::buffer, state_kind::unsaved_buffer,
                             state_kind::constant});
}
