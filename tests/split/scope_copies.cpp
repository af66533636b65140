// SPDX-License-Identifier: MIT
#include "cleave/split/split_with_scopes.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/split/inline_stages.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "support/cases.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/random_scopes.hpp"
#include "support/rng.hpp"
#include "support/state_simulation.hpp"
#include "support/toy_ir.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;
using strings = std::vector<std::string>;

namespace {

testing::integer_value value_of(module_graph const& g) {
  std::vector<testing::integer_value> given;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    given.push_back(testing::integer_value::computed(testing::mix(i + 1)));
  testing::integer_interpretation meaning;
  return evaluate(g, given, meaning);
}

/// Returns whether each call, and the end, has the same scope state as in `g`.
bool keeps_states(module_graph const& g, module_graph const& outer) {
  using enum testing::numbered;
  testing::state_simulation const whole(g, as_original), split(outer, by_from);
  return whole.at == split.at && whole.left == split.left && split.faults.empty();
}

/// An operation of a test IR: `(name` enters a scope, `)name` leaves it, and `=name` sets a state.
struct op {
  std::string name;
};
struct op_list {
  std::vector<op> ops;

  std::vector<std::size_t> nodes() const {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < ops.size(); ++i) all.push_back(i);
    return all;
  }
  static std::vector<std::size_t> operands(std::size_t) { return {}; }
  std::string const& name(std::size_t n) const { return ops[n].name; }
};

std::optional<scope_mark<std::size_t>> mark_of(op_list const& g, std::size_t n) {
  using enum scope_action;
  char const first = g.ops[n].name.front();
  if (first == '(') return scope_mark<std::size_t>{enter, g.ops[n].name == "(b"};
  if (first == ')') return scope_mark<std::size_t>{leave, g.ops[n].name == ")b"};
  if (first == '=') return scope_mark<std::size_t>{set, 2};
  return std::nullopt;
}

/// The names of the nodes of each stage, in the order in which the stages run.
strings stages_of(strings const& names, std::vector<std::uint32_t> const& parts,
                  scope_policy policy = scope_policy::replicate, plan_options const& options = {}) {
  op_list g;
  for (auto const& name : names) g.ops.push_back({name});
  auto const mark = [&](std::size_t n) { return mark_of(g, n); };
  auto const stages =
      split_with_scopes(g, assign(g, parts), {{"a", policy}, {"b", policy}, {"s", policy}}, mark, options);
  strings texts;
  for (auto const i : stages.plan().order) {
    std::string text;
    for (auto const n : stages[i].nodes) text += (text.empty() ? "" : " ") + g.ops[n].name;
    texts.push_back(text);
  }
  return texts;
}

/// A stage as a graph of its own.
struct piece : op_list {
  static std::vector<std::size_t> inputs() { return {}; }
  static std::vector<std::size_t> outputs() { return {}; }
};

/// Records the names of the joined nodes.
struct joiner {
  std::vector<piece> const& pieces;
  strings made{};

  int argument(std::uint32_t, source) { return 0; }
  std::vector<int> clone(std::size_t i, std::size_t n, auto) {
    made.push_back(pieces[i].ops[n].name);
    return {0};
  }
  void result(std::uint32_t, int) {}
};

}  // namespace

TEST_CASE("split_with_scopes: each stage enters the scopes of its nodes and leaves them again") {
  CHECK(stages_of({"(a", "x", "y", ")a", "z"}, {0, 0, 1, 1, 1}) == strings{"(a x )a", "(a y )a z"});
  CHECK(stages_of({"(a", "x", "y", "z", ")a"}, {0, 0, 1, 2, 2}) == strings{"(a x )a", "(a y )a", "(a z )a"});
  CHECK(stages_of({"x", "(a", "(b", "y", ")b", ")a"}, {0, 0, 0, 1, 1, 1}) ==
        strings{"x (a (b )b )a", "(a (b y )b )a"});
}

TEST_CASE("split_with_scopes: a stage with only one mark of a scope gets the other mark as well") {
  CHECK(stages_of({"(a", "x", ")a"}, {0, 1, 2}) == strings{"(a )a", "(a x )a", "(a )a"});
}

TEST_CASE("split_with_scopes: a part that continues enters the scopes begun since and leaves those ended") {
  CHECK(stages_of({"x", "(a", "y", "u", ")a", "z"}, {0, 1, 0, 1, 1, 0}) == strings{"x (a y )a z", "(a u )a"});
  CHECK(stages_of({"(a", "x", ")a", "(b", "y", ")b", "u", "v"}, {1, 0, 1, 1, 0, 1, 0, 1}) ==
        strings{"(a )a (b )b v", "(a x )a (b y )b u"});
}

TEST_CASE("split_with_scopes: at its end, a stage leaves overlapping scopes in reverse order of entry") {
  CHECK(stages_of({"(a", "(b", "x", "y", ")a", "z", ")b"}, {0, 0, 0, 1, 1, 2, 2}) ==
        strings{"(a (b x )b )a", "(a (b y )a )b", "(b z )b"});
}

TEST_CASE(
    "split_with_scopes: each stage sets the state it begins under, and the last stage leaves the final one") {
  CHECK(stages_of({"=1", "x", "y", "=2", "z"}, {0, 0, 1, 1, 2}) == strings{"=1 x", "=1 y =2", "=2 z"});
  CHECK(stages_of({"=1", "x", "=2", "y", "z"}, {0, 1, 0, 0, 1}) == strings{"=1 =2 y", "=1 x =2 z"});
  CHECK(stages_of({"=1", "x", "=2", "y"}, {0, 1, 0, 0}) == strings{"=1 =2 y", "=1 x =2"});
  CHECK(stages_of({"=1", "x", "=2", "y"}, {0, 1, 0, 0}, scope_policy::replicate,
                  {.settings = late_settings::accepted}) == strings{"=1 =2 y", "=1 x"});
}

TEST_CASE("split_with_scopes: orders marks that are copied to one place by kind, then as in the program") {
  CHECK(stages_of({"=1", "(b", "(a", "x", "y", ")a", ")b"}, {0, 0, 0, 0, 1, 1, 1}) ==
        strings{"=1 (b (a x )a )b", "(a (b =1 y )a )b"});
}

TEST_CASE(
    "split_with_scopes: an extended scope is not copied, and stages run in the order that it requires") {
  auto const extend = scope_policy::extend;
  for (auto const policy : {order::program, order::fifo, order::upstream}) {
    CHECK(stages_of({"(a", "x", "y", ")a", "z"}, {2, 2, 1, 1, 0}, extend, {.stages = policy}) ==
          strings{"(a x", "y )a", "z"});
    CHECK(stages_of({"x", "=1", "y", "z"}, {0, 1, 1, 2}, extend, {.stages = policy}) ==
          strings{"x", "=1 y", "z"});
  }
  CHECK_THROWS_AS(stages_of({"(a", "x", "y", ")a"}, {0, 1, 0, 0}, extend), partition_error);
}

TEST_CASE("split_module: each call keeps its own scope state under random cuts, or the cut is rejected") {
  testing::rng random(11);
  std::size_t kept = 0, refused = 0, cyclic = 0, moved = 0;
  auto const rounds = testing::cases(500, 4000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const policy = round % 4 == 0 ? scope_policy::extend : scope_policy::replicate;
    auto const g = testing::with_random_marks(
        random, testing::random_module_graph(random, 1 + random.below(14)), 2 + random.below(5));
    auto const parts = 1 + random.below(5);
    bool const slices = round % 3 == 0;
    std::size_t asked = 0;
    auto const part_of = [&](module_node const&) {
      auto const slice = asked++ * parts / std::max<std::size_t>(g.nodes().size(), 1);
      return slices ? slice : random.below(parts);
    };
    split_module_options options{.scopes = testing::four_scopes(policy)};
    options.stages = std::vector{order::program, order::fifo, order::upstream}[random.below(3)];
    if (random.one_in(2)) options.openings = opening_place::before_inputs;
    try {
      auto const r = split_module(g, part_of, options);
      ++kept;
      CHECK(keeps_states(g, r.outer));
      CHECK(value_of(g) == value_of(r.outer));
      if (policy == scope_policy::replicate) {
        options.settings = late_settings::accepted;
        std::map<std::string, std::string> label;
        for (auto const& piece : r.pieces)
          for (auto const n : piece.nodes) label[g[n].name] = piece.label;
        moved +=
            split_module(g, [&](module_node const& n) { return label[n.name]; }, options).order != r.order;
      }
    } catch (partition_error const&) {
      ++cyclic;
      CHECK_FALSE(slices);
    } catch (scope_order_error const& e) {
      ++refused;
      CHECK_FALSE(slices);
      CHECK(e.witness.first < e.witness.second);
    }
  }
  CHECK(kept > rounds / 3);
  CHECK(refused > rounds / 40);
  CHECK(cyclic > rounds / 40);
  CHECK(moved > rounds / 200);
}

TEST_CASE("split_module: keeps forbidden scopes whole if the cut follows their groups") {
  testing::rng random(12);
  std::size_t kept = 0, cut = 0;
  auto const rounds = testing::cases(180, 1500);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::with_random_marks(
        random, testing::random_module_graph(random, 1 + random.below(14)), 4 + random.below(5));
    auto const scopes = testing::four_scopes(scope_policy::forbid);
    auto const marks = module_marks(g, scopes);
    module_call_graph const calls(g);
    auto s = snapshot_of(calls);
    auto const marked = module_scopes_of(s, scopes, marks);
    s = add_scopes(std::move(s), marked);
    bool const whole = round % 2 == 0;
    std::map<std::string, std::size_t> part;
    for (std::size_t n = 0; n < s.nodes(); ++n) {
      auto const leader = g[s.node[static_cast<std::uint32_t>(s.group[n])]].name;
      if (!part.contains(leader)) part[leader] = n * 3 / s.nodes();
      part[g[s.node[static_cast<std::uint32_t>(n)]].name] = whole ? part[leader] : random.below(3);
    }
    try {
      auto const r = split_module(g, [&](module_node const& n) { return part[n.name]; }, {.scopes = scopes});
      ++kept;
      CHECK(keeps_states(g, r.outer));
      std::size_t calls_made = 0;
      for (auto const& piece : r.pieces) calls_made += r.graph(piece).nodes().size();
      if (testing::state_simulation(g, testing::numbered::as_original).left.set.empty())
        CHECK(calls_made == g.nodes().size());
    } catch (scope_cut_error const& e) {
      ++cut;
      CHECK_FALSE(whole);
      auto const part_at = [&](std::size_t n) { return part[g[g.nodes()[n]].name]; };
      CHECK(part_at(e.witness.first) != part_at(e.witness.second));
    } catch (partition_error const&) {
      CHECK_FALSE(whole);
    } catch (scope_order_error const&) {
      CHECK_FALSE(whole);
    }
  }
  CHECK(kept > rounds * 4 / 10);
  CHECK(cut > rounds / 15);
}

TEST_CASE("inline_stages: joined stages keep the marks that each stage enters and leaves") {
  op_list g;
  for (auto const* name : {"(a", "x", "y", ")a"}) g.ops.push_back({name});
  auto const mark = [&](std::size_t n) { return mark_of(g, n); };
  auto const stages =
      split_with_scopes(g, assign(g, std::vector<std::uint32_t>{0, 0, 1, 1}), {{"a"}, {"b"}, {"s"}}, mark);
  std::vector<piece> pieces(2);
  for (std::uint32_t i = 0; i < 2; ++i)
    for (auto const n : stages[stage_id{i}].nodes) pieces[i].ops.push_back(g.ops[n]);
  snapshot_arrays silent = stages.snapshot();  // the operations return nothing to the caller
  silent.outputs.clear();
  auto plan = stages.plan();
  for (auto& stage : plan.stages) stage.outputs.clear();
  joiner join{pieces};
  inline_stages(silent, plan, pieces, join);
  CHECK(join.made == strings{"(a", "x", ")a", "(a", "y", ")a"});
}

TEST_CASE("split_with_scopes: handles long chains in many stages under 100 scopes") {
  op_list g;
  auto const calls = testing::cases(40'000, 100'000), stages_asked = calls / 100;
  for (int i = 0; i < 100; ++i) g.ops.push_back({"(a"});
  for (std::size_t i = 0; i < calls; ++i) g.ops.push_back({"x"});
  for (int i = 0; i < 100; ++i) g.ops.push_back({")a"});
  std::vector<std::uint32_t> parts;
  for (std::size_t n = 0; n < g.ops.size(); ++n)
    parts.push_back(static_cast<std::uint32_t>(n * stages_asked / g.ops.size()));
  auto const mark = [&](std::size_t n) { return mark_of(g, n); };
  auto const stages = split_with_scopes(g, assign(g, parts), {{"a"}, {"b"}, {"s"}}, mark);
  std::size_t nodes = 0;
  for (auto const& stage : stages.plan().stages) nodes += stage.nodes.size();
  CHECK(nodes == calls + 2 * 100 * stages_asked);
}
