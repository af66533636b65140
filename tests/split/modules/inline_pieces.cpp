// SPDX-License-Identifier: MIT
#include "cleave/split/modules/inline_pieces.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/graph/interpreter.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "support/integer_interpretation.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using position = module_graph::position;

namespace {

std::uint64_t value_of(module_graph const& g) {
  std::vector<testing::integer_value> given;
  for (std::size_t i = 0; i < g.inputs().size(); ++i)
    given.push_back(testing::integer_value::computed(testing::mix(i + 1)));
  testing::integer_interpretation meaning;
  return evaluate(g, given, meaning).digest;
}

module_node node(node_kind kind, std::string const& name, std::vector<module_argument> args = {}) {
  module_node n;
  n.kind = kind;
  n.name = n.target = name;
  n.args = std::move(args);
  return n;
}

/// Returns f(x), or the tuple of x and f(x).
module_graph piece(bool tuple) {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  auto const f = g.add(node(node_kind::call_function, "f", {node_argument(x)}));
  g.add(node(node_kind::output, "output", {tuple ? tuple_argument({x, f}) : node_argument(f)}));
  return g;
}

/// Calls the piece, then `last` on its result.
module_graph caller(bool tuple, module_node last) {
  module_graph g;
  auto const in = g.add(node(node_kind::placeholder, "in"));
  auto const call = g.add(node(node_kind::call_module, "p", {node_argument(in)}));
  last.args.insert(last.args.begin(), node_argument(call));
  g.add(node(node_kind::output, "output", {node_argument(g.add(last))}));
  module_attribute a{"p", module_attribute::kind::module, {}, {}, {}, {}};
  a.body.push_back(piece(tuple));
  g.add_attribute(std::move(a));
  return g;
}

}  // namespace

TEST_CASE("inline_pieces: reverses split_module for any parts") {
  testing::rng random(1);
  for (int round = 0; round < 300; ++round) {
    auto const g = testing::random_module_graph(random, random.below(20));
    split_module_options o;
    o.pieces.nodes = node_naming::original;
    auto const parts = 1 + random.below(4);
    std::size_t last = 0;
    auto const split = split_module(
        g, [&](module_node const&) { return std::to_string(last = std::min(last + random.below(2), parts)); },
        o);
    std::vector<std::string> paths;
    for (auto const& p : split.pieces) paths.push_back(p.path);
    auto const whole = inline_pieces(split.outer, paths);
    CHECK(whole.nodes().size() == g.nodes().size());
    CHECK(value_of(whole) == value_of(g));
  }
}

TEST_CASE("inline_pieces: inlines only the named calls") {
  auto const g = caller(false, node(node_kind::call_function, "g"));
  CHECK(inline_pieces(g, {}).nodes().size() == 2);
  CHECK(inline_pieces(g, {}).find_attribute("p")->body.size() == 1);
  auto const whole = inline_pieces(g, {"p"});
  CHECK(whole.nodes().size() == 2);
  CHECK(whole[1].target == "f");
  CHECK(!whole.find_attribute("p"));
  CHECK(value_of(whole) == value_of(g));
  CHECK(inline_pieces(g, {"elsewhere"}).nodes().size() == 2);
}

TEST_CASE("inline_pieces: replaces elements of a returned tuple, and keeps a tuple that is read whole") {
  auto item = node(node_kind::call_function, "getitem");
  item.args = {{std::int64_t{1}}};
  auto const taken = caller(true, item);
  CHECK(inline_pieces(taken, {"p"}).nodes().size() == 1);
  CHECK(value_of(inline_pieces(taken, {"p"})) == value_of(taken));
  auto const whole = caller(true, node(node_kind::call_function, "g"));
  CHECK(inline_pieces(whole, {"p"}).nodes().size() == 2);
  CHECK(value_of(inline_pieces(whole, {"p"})) == value_of(whole));
  item.args = {{std::int64_t{7}}};  // no such element: the node stays unchanged
  CHECK(inline_pieces(caller(true, item), {"p"}).nodes().size() == 2);
}

TEST_CASE("inline_pieces: handles a piece with 30,000 results") {
  module_graph g;
  auto const x = g.add(node(node_kind::placeholder, "x"));
  std::vector<position> made;
  for (int i = 0; i < 30'000; ++i)
    made.push_back(g.add(node(node_kind::call_function, "f" + std::to_string(i), {node_argument(x)})));
  g.add(node(node_kind::output, "output", {tuple_argument(made)}));
  auto const cut = split_module(g, [](module_node const&) { return 0; });
  auto const whole = inline_pieces(cut.outer, {"submod_0"});
  CHECK(whole.nodes().size() == g.nodes().size());
  CHECK(value_of(whole) == value_of(g));
}

TEST_CASE("inline_pieces: inlines a piece that is called twice under different names") {
  auto g = caller(false, node(node_kind::call_module, "p"));
  auto const whole = inline_pieces(g, {"p"});
  CHECK(whole.nodes().size() == 2);
  CHECK(whole[1].name != whole[2].name);
  CHECK(value_of(whole) == value_of(g));
}
