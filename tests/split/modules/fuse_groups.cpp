// SPDX-License-Identifier: MIT
#include "cleave/split/modules/fuse_groups.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/partition/groups/capability.hpp"
#include "cleave/split/modules/inline_pieces.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;
using positions = std::vector<position>;
using strings = std::vector<std::string>;

namespace {

module_node node(node_kind kind, std::string const& name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  return n;
}

/// f = f(x); g = g(y); h = h(f, g); k = k(f). h and k are returned.
module_graph diamond() {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x")), y = g.add(node(placeholder, "y"));
  auto const f = g.add(node(call_function, "f", {node_argument(x)}));
  auto const other = g.add(node(call_function, "g", {node_argument(y)}));
  auto const h = g.add(node(call_function, "h", {node_argument(f), node_argument(other)}));
  auto const k = g.add(node(call_function, "k", {node_argument(f)}));
  g.add(node(output, "output", {tuple_argument({h, k})}));
  return g;
}

strings names(module_graph const& g) {
  strings list;
  for (auto const& n : g.list()) list.push_back(n.name);
  return list;
}

std::uint64_t value_of(module_graph const& g) {
  std::vector<testing::integer_value> given;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    given.push_back(testing::integer_value::computed(testing::mix(i + 1)));
  testing::integer_interpretation meaning;
  return evaluate(g, given, meaning).digest;
}

/// The text of each node, with names in place of the operands' positions.
std::map<std::string, std::string> written(module_graph const& g) {
  std::map<std::string, std::string> nodes;
  for (auto const& n : g.list()) {
    std::string text = n.target + "(";
    for (auto const& a : n.args)
      for (auto const& t : a) {
        auto const* ref = std::get_if<node_ref>(&t);
        text += ref ? g[ref->node].name + "," : std::to_string(t.index()) + ",";
      }
    for (auto const& k : n.kwargs) {
      text += k.key + "=";
      each_node(k.value, [&](position m) { text += g[m].name + ","; });
    }
    for (auto const m : n.after) text += " after " + g[m].name;
    nodes[n.name] = text + ")";
  }
  return nodes;
}

std::vector<positions> random_groups(testing::rng& random, module_graph const& g, fusion along) {
  std::size_t const chance = 2 + random.below(4);
  auto const found = capability_groups(g, [&](position) { return !random.one_in(chance); }, {.along = along});
  std::vector<positions> groups;
  for (auto const& group : found) {
    groups.emplace_back();
    for (auto const n : group.nodes) groups.back().push_back(g.nodes()[n]);
  }
  return groups;
}

strings paths_of(fused_graph const& fused) {
  strings paths;
  for (auto const& piece : fused.pieces) paths.push_back(piece.path);
  return paths;
}

}  // namespace

TEST_CASE(
    "fuse_groups: a piece takes and returns what crosses its border, and stands in place of its last node") {
  auto const g = diamond();
  auto const fused = fuse_groups(g, {{2, 4}});
  REQUIRE(fused.pieces.size() == 1);
  CHECK(fused.pieces[0].path == "fused_0");
  CHECK(fused.pieces[0].inputs == positions{0, 3});
  CHECK(fused.pieces[0].outputs == positions{2, 4});
  CHECK(names(fused.outer) == strings{"x", "y", "g", "fused_0", "getitem", "getitem_1", "k", "output"});
  CHECK(names(fused.graph(fused.pieces[0])) == strings{"x", "g", "f", "h", "output"});
  CHECK(value_of(fused.outer) == value_of(g));
}

TEST_CASE(
    "fuse_groups: returns one result bare unless tuples are asked for, and calls a group without results") {
  auto const g = diamond();
  CHECK(names(fuse_groups(g, {{5}}).outer) == strings{"x", "y", "f", "g", "h", "fused_0", "output"});
  auto const tuples = fuse_groups(g, {{5}}, {.prefix = "p", .results = result_form::tuple});
  CHECK(names(tuples.outer) == strings{"x", "y", "f", "g", "h", "p0", "getitem", "output"});
  CHECK(value_of(tuples.outer) == value_of(g));

  module_graph dead = diamond();
  module_graph with_dead;
  for (auto const& n : dead.list())
    if (n.kind != node_kind::output) with_dead.add(n);
  with_dead.add(node(node_kind::call_function, "print", {node_argument(0)}));
  with_dead.add(node(node_kind::output, "output", {node_argument(5)}));
  CHECK(fuse_groups(with_dead, {{6}}).pieces[0].outputs.empty());
  CHECK(value_of(fuse_groups(with_dead, {{6}}).outer) == value_of(with_dead));
}

TEST_CASE("fuse_groups: lists inputs by first read, or as in the graph if all are the graph's own") {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x")), y = g.add(node(placeholder, "y"));
  auto const f = g.add(node(call_function, "f", {node_argument(y), node_argument(x)}));
  g.add(node(output, "output", {node_argument(f)}));
  CHECK(fuse_groups(g, {{f}}).pieces[0].inputs == positions{y, x});
  CHECK(fuse_groups(g, {{f}}, {.inputs = fused_inputs::graph_order_if_own}).pieces[0].inputs ==
        positions{x, y});
}

TEST_CASE("fuse_groups: a value has the same name in a later group as in the outer graph") {
  auto const g = diamond();
  auto const fused = fuse_groups(g, {{2, 3}, {4}, {5}});
  CHECK(names(fused.outer) ==
        strings{"x", "y", "fused_0", "getitem", "getitem_1", "fused_1", "fused_2", "output"});
  CHECK(names(fused.graph(fused.pieces[0])) == strings{"x", "y", "f", "g", "output"});
  CHECK(names(fused.graph(fused.pieces[1])) == strings{"getitem", "getitem_1", "h", "output"});
  CHECK(names(fused.graph(fused.pieces[2])) == strings{"getitem", "k", "output"});
  CHECK(fused.graph(fused.pieces[2])[0].target == "getitem");
  auto const backward = fuse_groups(g, {{5}, {2}});
  CHECK(names(backward.graph(backward.pieces[0])) == strings{"f", "k", "output"});
  CHECK(value_of(fused.outer) == value_of(g));
}

TEST_CASE("fuse_groups: keeps the order of a group where dependencies allow it") {
  auto const g = diamond();
  CHECK(sorted_group(g, {5, 4, 3, 2}) == positions{3, 2, 5, 4});
  CHECK(sorted_group(g, {3, 2}) == positions{3, 2});
  CHECK(fuse_groups(g, {{4, 3}}).pieces[0].nodes == positions{3, 4});
}

TEST_CASE(
    "fuse_groups: moves an attribute into the piece of its group, and picks an unused path for the piece") {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x")), w = g.add(node(get_attr, "w"));
  auto lin = node(call_module, "lin", {node_argument(x)});
  lin.target = "fused_0";
  auto const called = g.add(lin);
  auto const f = g.add(node(call_function, "f", {node_argument(called), node_argument(w)}));
  g.add(node(output, "output", {node_argument(f)}));
  g.add_attribute({"w", module_attribute::kind::tensor, {}, {}, {}, {}});
  g.add_attribute({"fused_0", module_attribute::kind::module, {}, {}, {}, {}});
  auto const fused = fuse_groups(g, {{w, f}});
  CHECK(fused.pieces[0].path == "fused_0_");
  CHECK(fused.pieces[0].inputs == positions{called});
  CHECK(fused.graph(fused.pieces[0]).find_attribute("w"));
  CHECK(!fused.outer.find_attribute("w"));
  CHECK(fused.outer.find_attribute("fused_0"));
  CHECK(value_of(fused.outer) == value_of(g));
  CHECK(written(inline_pieces(fused.outer, paths_of(fused))) == written(g));
}

TEST_CASE("fuse_groups: keeps the order of effects between a piece and other nodes") {
  using enum node_kind;
  module_graph g;
  auto const x = g.add(node(placeholder, "x"));
  auto const first = g.add(node(call_function, "print", {node_argument(x)}));
  auto second = node(call_function, "f", {node_argument(x)});
  second.after = {first};
  auto const f = g.add(second);
  auto third = node(call_function, "log", {node_argument(x)});
  third.after = {f};
  auto const log = g.add(third);
  g.add(node(output, "output", {tuple_argument({f, log})}));
  auto const fused = fuse_groups(g, {{f}});
  CHECK(written(fused.outer).at("fused_0") == "fused_0(x, after print)");
  CHECK(written(fused.outer).at("log") == "log(x, after fused_0)");
  CHECK(value_of(fused.outer) == value_of(g));
  CHECK_THROWS_AS(fuse_groups(g, {{first, log}}), partition_error);
}

TEST_CASE("fuse_groups: the fused and the inlined graph equal the original, on random graphs") {
  testing::rng random(1);
  for (int round = 0; round < 400; ++round) {
    auto const g = testing::random_module_graph(random, random.below(25), random.below(3));
    auto const groups = random_groups(random, g, random.one_in(2) ? fusion::horizontal : fusion::connected);
    fuse_options o;
    if (random.one_in(2)) o.results = result_form::tuple;
    if (random.one_in(2)) o.inputs = fused_inputs::graph_order_if_own;
    auto const fused = fuse_groups(g, groups, o);
    CHECK(fused.pieces.size() == groups.size());
    CHECK(value_of(fused.outer) == value_of(g));
    auto const whole = inline_pieces(fused.outer, paths_of(fused));
    CHECK(value_of(whole) == value_of(g));
    CHECK(written(whole) == written(g));
    CHECK(whole.attributes().size() == g.attributes().size());
  }
}

TEST_CASE("fuse_groups: makes no piece for an empty group, and returns the same graph without groups") {
  auto const g = diamond();
  CHECK(fuse_groups(g, {{}, {5}, {}}).pieces.size() == 1);
  CHECK(fuse_groups(g, {{}, {5}}).pieces[0].path == "fused_1");
  CHECK(written(fuse_groups(g, {}).outer) == written(g));
  CHECK(fuse_groups(module_graph(), {}).outer.list().empty());
}

TEST_CASE("fuse_groups: rejects nodes that cannot be in a group and names them") {
  auto const g = diamond();
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{0}}),
                       "group 0 has 'x', which is neither a call nor an attribute; leave placeholders and "
                       "the output out of groups",
                       fuse_error);
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{2}, {6}}),
                       "group 1 has 'output', which is neither a call nor an attribute; leave placeholders "
                       "and the output out of groups",
                       fuse_error);
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{2, 3}, {4, 3}}),
                       "node 'g' is in group 0 and in group 1; a node is in one group at most", fuse_error);
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{2, 2}}),
                       "node 'f' is in group 0 and in group 0; a node is in one group at most", fuse_error);
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{9}}), "group 0 has node #9, but the graph has only 7 nodes",
                       fuse_error);
  module_graph lost;
  lost.add(node(node_kind::get_attr, "w"));
  CHECK_THROWS_AS(fuse_groups(lost, {}), missing_target_error);
}

TEST_CASE("fuse_groups: rejects groups that form a cycle with each other or with other nodes") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const a = g.add(node(node_kind::call_function, "a", {node_argument(x)}));
  auto const b = g.add(node(node_kind::call_function, "b", {node_argument(a)}));
  auto const c = g.add(node(node_kind::call_function, "c", {node_argument(b)}));
  auto const d = g.add(node(node_kind::call_function, "d", {node_argument(x)}));
  g.add(node(node_kind::output, "output", {tuple_argument({c, d})}));
  CHECK_THROWS_WITH_AS(fuse_groups(g, {{a, c}}), doctest::Contains("b"), partition_error);
  module_graph two;
  auto const y = two.add(node(node_kind::placeholder, "y"));
  auto const f = two.add(node(node_kind::call_function, "f", {node_argument(y)}));
  auto const g1 = two.add(node(node_kind::call_function, "g", {node_argument(f)}));
  auto const f1 = two.add(node(node_kind::call_function, "f1", {node_argument(y)}));
  auto const g2 = two.add(node(node_kind::call_function, "g2", {node_argument(f1)}));
  two.add(node(node_kind::output, "output", {tuple_argument({g1, g2})}));
  CHECK_THROWS_AS(fuse_groups(two, {{f, g2}, {f1, g1}}), partition_error);
}
