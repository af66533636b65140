// SPDX-License-Identifier: MIT
#include "cleave/split/modules/split_module.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/split/inline_stages.hpp"
#include "cleave/split/split.hpp"
#include "support/cases.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;
using strings = std::vector<std::string>;

namespace {

static_assert(stateful_graph<module_call_graph> && effectful_graph<module_call_graph> &&
              named_graph<module_call_graph>);
static_assert(stage_builder<module_builder, module_call_graph>);

module_node node(node_kind kind, std::string const& name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  return n;
}

/// x -> f -> g -> h; f, g and h are returned.
module_graph chain() {
  module_graph g;
  auto at = g.add(node(node_kind::placeholder, "x"));
  std::vector<position> made;
  for (auto const* name : {"f", "g", "h"})
    made.push_back(at = g.add(node(node_kind::call_function, name, {node_argument(at)})));
  g.add(node(node_kind::output, "output", {tuple_argument(made)}));
  return g;
}

auto by_name(std::map<std::string, std::string> parts) {
  return [parts](module_node const& n) -> std::optional<std::string> {
    auto const found = parts.find(n.name);
    return found == parts.end() ? std::nullopt : std::optional(found->second);
  };
}

testing::integer_value value_of(module_graph const& g, std::size_t inputs) {
  std::vector<testing::integer_value> given;
  for (std::size_t i = 0; i < inputs; ++i)
    given.push_back(testing::integer_value::computed(testing::mix(i + 1)));
  testing::integer_interpretation meaning;
  return evaluate(g, given, meaning);
}

split_module_options random_options(testing::rng& random) {
  split_module_options o;
  o.stages = std::vector{order::program, order::fifo, order::upstream}[random.below(3)];
  if (random.one_in(4)) o.stages = order::priority, o.priority = {"1", "0"};
  if (random.one_in(3)) o.inputs = input_order::definition;
  if (random.one_in(3)) o.outputs = output_order::production;
  o.attributes = random.one_in(2) ? attribute_place::front : attribute_place::first_use;
  o.pieces.nodes = random.one_in(2) ? node_naming::original : node_naming::from_target;
  o.pieces.inputs = random.one_in(2) ? input_naming::original : input_naming::numbered;
  o.pieces.results = random.one_in(2) ? result_form::tuple : result_form::bare_if_single;
  if (random.one_in(3)) o.affix = "pp";
  return o;
}

/// Joins the pieces into one module_graph.
struct joiner {
  module_graph const& whole;
  snapshot<module_call_graph, std::uint32_t> const& s;
  std::vector<module_graph> const& pieces;
  module_graph made{};
  std::vector<module_argument> results{};

  position argument(std::uint32_t v, source) { return made.add(whole[s.value[v]]); }
  std::vector<position> clone(std::size_t piece, position n, auto lookup) {
    auto copy = pieces[piece][n];
    for (auto& a : copy.args) a = map_nodes(std::move(a), lookup);
    for (auto& k : copy.kwargs) k.value = map_nodes(std::move(k.value), lookup);
    copy.target = whole[copy.from].target;  // the pieces have renamed called modules
    copy.after.clear();
    return {made.add(std::move(copy))};
  }
  void result(std::uint32_t, position at) { results.push_back(node_argument(at)); }
};

}  // namespace

TEST_CASE("split_module: makes pieces by first appearance, with the expected interfaces and outer graph") {
  auto const g = chain();
  auto const r = split_module(g, by_name({{"f", "b"}, {"g", "a"}, {"h", "a"}}), {.affix = "pp"});
  REQUIRE(r.pieces.size() == 2);
  auto const& [first, second] = std::pair(r.pieces[0], r.pieces[1]);
  CHECK(first.label == "pp_b");
  CHECK(first.path == "submod_pp_b");
  CHECK(first.nodes == std::vector<position>{1});
  CHECK(first.outputs == std::vector<position>{1});
  CHECK(first.dependents == std::vector<std::uint32_t>{1});
  CHECK(second.inputs == std::vector<position>{1});
  CHECK(second.outputs == std::vector<position>{2, 3});
  strings names;
  for (auto const& n : r.outer.list()) names.push_back(n.name);
  CHECK(names == strings{"x", "submod_pp_b", "submod_pp_a", "getitem", "getitem_1", "output"});
  CHECK(r.outer.find_attribute("submod_pp_a")->body.size() == 1);
  CHECK(r.graph(second).nodes().size() == 2);
}

TEST_CASE("split_module: asks for the part of each call once, in graph order") {
  auto const g = chain();
  strings asked;
  auto const r = split_module(g, [&](module_node const& n) {
    asked.push_back(n.name);
    return n.name;
  });
  CHECK(asked == strings{"f", "g", "h"});
  CHECK(r.pieces.size() == 3);
}

TEST_CASE("split_module: reports a missing part, a cycle, a late stage or a missing target with a witness") {
  auto const g = chain();
  CHECK_THROWS_WITH_AS(split_module(g, by_name({{"f", "0"}, {"h", "0"}})),
                       "the callback returned no part for node 'g' (g)", unassigned_node_error);
  try {
    split_module(g, by_name({{"f", "0"}, {"g", "1"}, {"h", "0"}}));
    FAIL("a cycle between parts");
  } catch (partition_error const& e) {
    CHECK(e.witness == std::vector<std::size_t>{0, 1, 1, 2});
  }

  module_graph late;  // part b appears second but must run before part a
  auto const x = late.add(node(node_kind::placeholder, "x"));
  late.add(node(node_kind::call_function, "a1", {node_argument(x)}));
  auto const b = late.add(node(node_kind::call_function, "b", {node_argument(x)}));
  late.add(node(node_kind::call_function, "a2", {node_argument(b)}));
  auto const parts = by_name({{"a1", "a"}, {"b", "b"}, {"a2", "a"}});
  CHECK(split_module(late, parts).order == std::vector<std::uint32_t>{1, 0});
  try {
    split_module(late, parts, {.first = appearance::required});
    FAIL("no order of first appearance");
  } catch (stage_order_error const& e) {
    CHECK(e.witness == std::pair(b, position{3}));
  }

  module_graph dangling;
  dangling.add(node(node_kind::get_attr, "w"));
  CHECK(find_missing_target(dangling) == 0u);
  CHECK_THROWS_AS(split_module(dangling, by_name({})), missing_target_error);
}

TEST_CASE("split_module: keeps the order of effects that no value shows, under every policy") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const write = g.add(node(node_kind::call_function, "write", {node_argument(x)}));
  auto read = node(node_kind::call_function, "read", {node_argument(x)});
  auto const without =
      split_module(g, [](module_node const& n) { return n.name; }, {.stages = order::upstream});
  read.after = {write};
  g.add(read);
  for (auto const policy : {order::program, order::fifo, order::upstream}) {
    auto const r = split_module(g, [](module_node const& n) { return n.name; }, {.stages = policy});
    CHECK(r.order == std::vector<std::uint32_t>{0, 1});
    CHECK(r.pieces[0].dependents == std::vector<std::uint32_t>{1});
  }
}

TEST_CASE("split_module: renames colliding module paths and keeps a user's own submod_0") {
  module_graph g;
  for (auto const* path : {"a.b", "a_b", "submod_0"})
    g.add_attribute({path, module_attribute::kind::module, {}, {}, {}, {}});
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const body = g.add(node(node_kind::get_attr, "submod_0"));
  auto const one = g.add(node(node_kind::call_module, "a.b", {node_argument(x)}));
  auto const two = g.add(node(node_kind::call_module, "a_b", {node_argument(one)}));
  g.add(node(node_kind::output, "output", {tuple_argument({two, body})}));
  auto const r = split_module(g, [](module_node const&) { return "0"; });
  CHECK(value_of(g, 1) == value_of(r.outer, 1));
  REQUIRE(r.pieces.size() == 1);
  CHECK(r.pieces[0].path == "submod_0_");
  CHECK(r.graph(r.pieces[0]).find_attribute("a_b")->original == "a.b");
  CHECK(r.graph(r.pieces[0]).find_attribute("a_b_1")->original == "a_b");
  CHECK(r.qualified_names.size() == 2);
}

TEST_CASE("split_module: pieces compute the same as the whole, and the user's graph stays unchanged") {
  testing::rng random(3);
  std::size_t cuts = 0, cycles = 0;
  auto const rounds = testing::cases(350, 3000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_module_graph(random, random.below(15));
    auto const before = std::vector(g.list().begin(), g.list().end());
    auto const parts = 1 + random.below(5);
    bool const slices = round % 3 != 0;
    std::size_t asked = 0;
    auto const part_of = [&](module_node const&) {
      auto const slice = asked++ * parts / std::max<std::size_t>(g.nodes().size(), 1);
      return std::to_string(slices ? slice : random.below(parts));
    };
    auto const options = random_options(random);
    try {
      auto const r = split_module(g, part_of, options);
      ++cuts;
      CHECK(value_of(g, g.inputs().size()) == value_of(r.outer, g.inputs().size()));
      strings names;
      for (auto const& n : r.outer.list()) names.push_back(n.name);
      std::ranges::sort(names);
      CHECK(std::ranges::adjacent_find(names) == names.end());
    } catch (partition_error const& e) {
      ++cycles;
      CHECK_FALSE(slices);
      CHECK(e.witness.size() >= 4);
    }
    CHECK(asked == g.nodes().size());
    CHECK(std::ranges::equal(g.list(), before));
  }
  CHECK(cuts > rounds * 2 / 3);
  CHECK(cycles > rounds / 30);
}

TEST_CASE("split_module: a piece binds every symbol of its inputs, or an error names the unbound symbol") {
  testing::rng random(5);
  std::size_t cuts = 0, unbound = 0;
  auto const rounds = testing::cases(250, 2000);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(15), 1 + random.below(3));
    auto const part_of = [&](module_node const&) { return std::to_string(random.below(3)); };
    symbol_binders const binders(g);
    try {
      auto const r = split_module(g, part_of, random_options(random));
      ++cuts;
      CHECK(value_of(g, g.inputs().size()) == value_of(r.outer, g.inputs().size()));
      for (auto const& piece : r.pieces)
        for (auto const v : piece.inputs)
          for (auto const& symbol : g[v].symbols) {
            auto const binder = binders.find(symbol);
            REQUIRE(binder);
            std::ptrdiff_t known = 0;
            for (auto const* list : {&piece.inputs, &piece.nodes, &piece.own_attributes})
              known += std::ranges::count(*list, *binder);
            CHECK(known == 1);
          }
    } catch (unbound_symbol_error const& e) {
      ++unbound;
      CHECK_FALSE(binders.find(e.symbol));
      CHECK(std::ranges::count(g[e.witness.first].symbols, e.symbol) == 1);
      auto const read = g.operands(e.witness.second);
      CHECK(std::ranges::find(read, e.witness.first) != read.end());
    } catch (partition_error const&) {
    }
  }
  CHECK(cuts > rounds / 10);
  CHECK(unbound > rounds / 10);
}

TEST_CASE(
    "split_module: passes a symbol that is bound late to its reader, unless the reader's part binds it") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto sized = node(node_kind::call_function, "nonzero", {node_argument(x)});
  sized.symbols = {"u0"};
  auto const v = g.add(sized);
  g.add(node(node_kind::call_function, "f", {node_argument(v)}));
  auto size = node(node_kind::call_function, "size", {node_argument(v)});
  size.binds = "u0";
  size.symbols = {"u0"};
  auto const late = g.add(size);
  auto const there = split_module(g, by_name({{"nonzero", "0"}, {"f", "1"}, {"size", "0"}}));
  CHECK(there.pieces[0].outputs == std::vector{v, late});
  CHECK(there.pieces[1].inputs == std::vector{v, late});
  auto const here = split_module(g, by_name({{"nonzero", "0"}, {"f", "1"}, {"size", "1"}}));
  CHECK(here.pieces[1].inputs == std::vector{v});
  auto const simple = split_module_simple(g, by_name({{"nonzero", "0"}, {"f", "1"}, {"size", "0"}}));
  CHECK(simple.pieces[1].inputs == std::vector{v});
}

TEST_CASE("split_module_simple: puts an attribute into the part that it is given") {
  module_graph g;
  g.add_attribute({"w", module_attribute::kind::tensor, {}, {}, {}, {}});
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const w = g.add(node(node_kind::get_attr, "w"));
  g.add(node(node_kind::call_function, "f", {node_argument(x), node_argument(w)}));
  CHECK(split_module_simple(g, by_name({{"f", "0"}})).pieces[0].inputs == std::vector{x, w});
  auto const own = split_module_simple(g, by_name({{"f", "0"}, {"w", "0"}}));
  CHECK(own.pieces[0].inputs == std::vector{x});
  CHECK(own.pieces[0].nodes == std::vector<position>{1, 2});
  CHECK(own.outer.state().empty());
}

TEST_CASE("split_module: rejoined pieces compute the same as the original and have each call once") {
  testing::rng random(4);
  for (std::size_t round = 0; round < testing::cases(100, 1000); ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(15));
    module_call_graph const calls(g);
    auto const count = calls.nodes().size(), parts = 1 + random.below(4);
    partition p{{}, static_cast<std::uint32_t>(parts)};
    for (std::size_t n = 0; n < count; ++n)
      p.of.push_back(part_id{static_cast<std::uint32_t>(n * parts / count)});
    auto const stages = split(calls, p, {.stages = order::upstream});

    std::vector<module_graph> graphs;
    for (std::uint32_t i = 0; i < parts; ++i) {
      module_builder b(g, {.inputs = input_naming::numbered, .results = result_form::tuple});
      emit(stages, stage_id{i}, b);
      graphs.push_back(std::move(b).finish());
    }
    joiner join{g, stages.snapshot(), graphs};
    inline_stages(stages.snapshot(), stages.plan(),
                  std::vector<module_call_graph>(graphs.begin(), graphs.end()), join);

    auto output = g[*g.output()];
    std::size_t taken = 0;
    for (auto& a : output.args)
      a = map_nodes(std::move(a),
                    [&](position) { return std::get<node_ref>(join.results[taken++].front()).node; });
    join.made.add(output);
    for (auto const& a : g.attributes()) join.made.add_attribute(a);
    CHECK(taken == join.results.size());
    std::vector<position> copied;
    for (auto const n : join.made.nodes()) copied.push_back(join.made[n].from);
    std::ranges::sort(copied);
    CHECK(std::ranges::equal(copied, g.nodes()));

    // Arguments come in the order in which the joined graph first needs them: give each placeholder its own
    // value.
    std::vector<testing::integer_value> inputs, joined;
    for (auto const n : g.inputs())
      inputs.push_back(testing::integer_value::computed(testing::fnv(g[n].name)));
    for (auto const n : join.made.inputs())
      joined.push_back(testing::integer_value::computed(testing::fnv(join.made[n].name)));
    testing::integer_interpretation meaning;
    CHECK(evaluate(join.made, joined, meaning) == evaluate(g, inputs, meaning));
  }
}

TEST_CASE("split_module: preserves metadata, defaults, keywords and shapes of the graph") {
  module_graph g;
  g.metadata = {{"class", {std::string("net")}}};
  module_attribute body{"body", module_attribute::kind::module, {}, {}, {}, {}};
  body.body.emplace_back();
  body.metadata = {{"file", {std::string("a.py")}}};
  g.add_attribute(body);
  auto input = node(node_kind::placeholder, "**kwargs");
  input.default_value = module_argument{std::monostate()};
  auto const x = g.add(input);
  auto const b = g.add(node(node_kind::get_attr, "body"));
  auto first = node(node_kind::call_function, "f", {node_argument(b), node_argument(x)});
  first.metadata = {{"line", {std::int64_t{7}}}};
  first.shape = std::vector<dimension>{std::int64_t{2}, std::string("s0")};
  auto const f = g.add(first);
  auto second = node(node_kind::call_function, "g", {node_argument(x)});
  second.kwargs = {{"zeta", node_argument(x)}, {"alpha", {true}}};
  second.after = {f};
  auto const h = g.add(second);
  auto last = node(node_kind::output, "output");
  last.args = {{container{container::kind::dict, 2}, std::string("b"), node_ref{h}, std::string("a"),
                container{container::kind::list, 1}, node_ref{f}}};
  last.metadata = {{"spec", {std::string("dict")}}};
  g.add(last);
  auto const before = std::vector(g.list().begin(), g.list().end());
  auto const r = split_module(g, [](module_node const& n) { return n.name; });

  CHECK(std::ranges::equal(g.list(), before));
  CHECK(r.outer.metadata == g.metadata);
  auto const& outer = r.outer.list();
  CHECK(outer[0].target == "**kwargs");
  CHECK(outer[0].default_value == input.default_value);
  auto const calls = r.outer.nodes();
  REQUIRE(calls.size() == 2);
  CHECK(r.outer[calls[0]].metadata == first.metadata);
  CHECK(r.outer[calls[0]].shape == first.shape);
  CHECK(r.outer[calls[1]].after == std::vector{calls[0]});
  CHECK(outer.back().metadata == last.metadata);
  CHECK(outer.back().args.front().size() == 6);
  CHECK(value_of(g, 1) == value_of(r.outer, 1));
  auto const& piece = r.graph(r.pieces[0]);
  CHECK(piece.find_attribute("body")->metadata == body.metadata);
  CHECK(piece.find_attribute("body")->body.size() == 1);
  CHECK(r.pieces[0].inputs == std::vector{x});
  auto const& there = r.graph(r.pieces[1]);
  CHECK(there[there.nodes()[0]].kwargs[0].key == "zeta");
}

TEST_CASE("split_module: orders parts by priority, inputs by definition and outputs by production") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x")), y = g.add(node(node_kind::placeholder, "y"));
  auto const a = g.add(node(node_kind::call_function, "a", {node_argument(y)}));
  auto const b = g.add(node(node_kind::call_function, "b", {node_argument(x)}));
  g.add(node(node_kind::call_function, "c", {node_argument(b), node_argument(y), node_argument(a)}));
  auto const parts = by_name({{"a", "0"}, {"b", "0"}, {"c", "1"}});
  CHECK(split_module(g, parts).pieces[1].inputs == std::vector{b, y, a});
  CHECK(split_module(g, parts, {.inputs = input_order::definition}).pieces[1].inputs == std::vector{y, a, b});
  CHECK(split_module(g, parts).pieces[0].outputs == std::vector{b, a});
  CHECK(split_module(g, parts, {.outputs = output_order::production}).pieces[0].outputs == std::vector{a, b});
  auto const alone = by_name({{"a", "0"}, {"b", "1"}, {"c", "2"}});
  split_module_options const options{.stages = order::priority, .priority = {"2", "1"}};
  CHECK(split_module(g, alone, options).order == std::vector<std::uint32_t>{1, 0, 2});
}

TEST_CASE("split_module: an unread attribute is in the outer graph only if that has no other value") {
  using enum node_kind;
  auto const outer = [](bool reads, bool given) {
    module_graph g;
    g.add_attribute({"w", module_attribute::kind::tensor, {}, {}, {}, {}});
    if (given) g.add(node(placeholder, "x"));
    auto const w = g.add(node(get_attr, "w"));
    g.add(node(call_function, "f", std::vector<module_argument>(reads ? 1 : 0, node_argument(w))));
    auto const one_part = [](module_node const&) { return 0; };
    auto const made = split_module(g, one_part, {.attributes = attribute_place::first_use});
    strings names;
    for (auto const& n : made.outer.list()) names.push_back(n.name);
    return names;
  };
  CHECK(outer(false, false) == strings{"submod_0", "w"});
  CHECK(outer(false, true) == strings{"x", "submod_0"});
  CHECK(outer(true, false) == strings{"w", "submod_0"});
}

TEST_CASE("split_module: cuts a long chain of calls into pieces of 100") {
  module_graph g;
  auto const calls = testing::cases(40'000, 100'000);
  auto at = g.add(node(node_kind::placeholder, "x"));
  for (std::size_t i = 0; i < calls; ++i)
    at = g.add(node(node_kind::call_function, "f", {node_argument(at)}));
  g.add(node(node_kind::output, "output", {node_argument(at)}));
  std::size_t asked = 0;
  auto const r = split_module(g, [&](module_node const&) { return std::to_string(asked++ / 100); },
                              {.stages = order::upstream});
  CHECK(r.pieces.size() == calls / 100);
  CHECK(value_of(g, 1) == value_of(r.outer, 1));
}

TEST_CASE("split_module: shows each piece when it is written, and leaves out what is taken away") {
  auto const g = chain();
  auto const part = by_name({{"f", "a"}, {"g", "b"}, {"h", "c"}});
  auto const whole = split_module(g, part);
  strings shown;
  auto const r = split_module(g, part, {}, [&](module_piece const& piece, module_graph& graph) {
    shown.push_back(piece.path);
    CHECK(std::ranges::equal(graph.list(), whole.outer.find_attribute(piece.path)->body.front().list()));
    if (piece.label == "b") graph = {};
  });
  CHECK(shown == strings{"submod_a", "submod_b", "submod_c"});
  CHECK(std::ranges::equal(r.outer.list(), whole.outer.list()));
  CHECK(r.graph(r.pieces[0]).list().size() == whole.graph(whole.pieces[0]).list().size());
  CHECK(r.graph(r.pieces[1]).list().empty());
}
