// SPDX-License-Identifier: MIT
#include "cleave/split/emit.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "cleave/split/split.hpp"
#include "support/random_program.hpp"
#include "support/rng.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;
using strings = std::vector<std::string>;

namespace {

/// Records the calls that it gets. It names values by numbers, each used once.
struct scribe {
  strings said{};
  std::map<std::string, std::string> called{};  // the current name of each value
  int next = 0;

  std::string name(std::string const& v) { return called[v] = "%" + std::to_string(next++); }
  std::string argument(std::string const& v, source from) {
    said.push_back((is_held(from) ? "state " : "input ") + v);
    return name(v);
  }
  strings clone(toy::op const* o, auto lookup) {
    said.push_back("clone " + o->name);
    for (auto const& v : o->in) CHECK(lookup(v) == called.at(v));
    strings made;
    for (auto const& v : o->out) made.push_back(name(v));
    return made;
  }
  void result(std::string const& v, std::string const& made) {
    said.push_back("result " + v);
    CHECK(made == called.at(v));
  }
};

/// Looks up a value that the adapter does not list.
struct greedy : toy::builder {
  strings clone(toy::op const* o, auto lookup) {
    lookup("x");
    return toy::builder::clone(o, lookup);
  }
};

}  // namespace

TEST_CASE("emit: passes inputs, state, nodes and results in plan order, and finds each under its new name") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    auto const p = testing::random_program(random, random.below(15));
    toy::graph const g(p);
    auto const stages = split(g, testing::equal_slices(p.ops.size(), 3));
    auto const& s = stages.snapshot();
    for (std::uint32_t i = 0; i < stages.size(); ++i) {
      auto const& stage = stages.plan().stages[i];
      strings plan;
      for (auto const v : stage.inputs) plan.push_back("input " + s.value[v]);
      for (auto const v : stage.state) plan.push_back("state " + s.value[v]);
      for (auto const n : stage.nodes) plan.push_back("clone " + p.ops[n]->name);
      for (auto const v : stage.outputs) plan.push_back("result " + s.value[v]);
      scribe b;
      emit(stages, stage_id{i}, b);
      REQUIRE(b.said == plan);
    }
  }
}

TEST_CASE("emit_stage: clones the opening nodes before the arguments, and the rest after them") {
  toy::program p{{"x"}, {"w"}, {"b"}};
  p.add({"enter", {}, {"scope"}});
  p.add({"f", {"x", "w"}, {"a"}});
  p.add({"g", {"a", "scope"}, {"b"}});
  toy::graph const g(p);
  auto const s = snapshot_of(g);
  stage_plan const stage{{0, 1, 2}, {s.inputs[0]}, {s.state[0]}, {s.outputs[0]}};
  scribe opened, plain;
  emit_stage(g, s, stage, opened, 1);
  emit_stage(g, s, stage, plain);
  CHECK(opened.said == strings{"clone enter", "input x", "state w", "clone f", "clone g", "result b"});
  CHECK(plain.said == strings{"input x", "state w", "clone enter", "clone f", "clone g", "result b"});
}

TEST_CASE("emit: names the node if a builder looks up a value that the adapter did not list") {
  toy::program p{{"x"}, {}, {"b"}};
  p.add({"f", {"x"}, {"a"}});
  p.add({"g", {"a"}, {"b"}});
  toy::graph const g(p);
  auto const stages = split(g, testing::equal_slices(2, 2));
  greedy first, second;
  emit(stages, stage_id{0}, first);
  CHECK_THROWS_WITH_AS(emit(stages, stage_id{1}, second),
                       "emit: node g (#1) looks up a value that its stage neither receives nor has made; "
                       "operands(n), or the bodies that regions(n) names, must list all that clone(n) reads",
                       lookup_error);
}

TEST_CASE("emit: an empty stage makes no calls to the builder") {
  toy::program const p{{"x"}, {"w"}, {}};
  toy::graph const g(p);
  scribe b;
  emit(split(g, {{}, 1}), stage_id{0}, b);
  CHECK(b.said.empty());
}
