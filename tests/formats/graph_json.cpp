// SPDX-License-Identifier: MIT
#include "cleave/formats/graph_json.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "cleave/graph/costed_module_graph.hpp"
#include "cleave/graph/snapshot.hpp"
#include "cleave/split/modules/inline_pieces.hpp"
#include "cleave/split/modules/split_module.hpp"
#include "support/error_text.hpp"
#include "support/random_module_graph.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;

static_assert(weighted_graph<costed_module_graph> && sized_graph<costed_module_graph> &&
              stateful_graph<costed_module_graph> && tied_graph<costed_module_graph> &&
              replicating_graph<costed_module_graph> && !replicating_graph<module_graph> &&
              carrying_graph<costed_module_graph> && !carrying_graph<module_graph>);

namespace {

void check_same(module_graph const& a, module_graph const& b) {
  CHECK(std::vector(a.list().begin(), a.list().end()) == std::vector(b.list().begin(), b.list().end()));
  CHECK(a.metadata == b.metadata);
  REQUIRE(a.attributes().size() == b.attributes().size());
  for (std::size_t i = 0; i < a.attributes().size(); ++i) {
    auto const &x = a.attributes()[i], &y = b.attributes()[i];
    CHECK(x.path == y.path);
    CHECK(x.what == y.what);
    CHECK(x.storage == y.storage);
    CHECK(x.original == y.original);
    CHECK(x.metadata == y.metadata);
    REQUIRE(x.body.size() == y.body.size());
    if (!x.body.empty()) check_same(x.body.front(), y.body.front());
  }
}

std::string refusal(std::string const& text) {
  return testing::error_text<cleave::json::error>([&] { read_graph_json(text); });
}

std::string with_nodes_text(std::string const& nodes) {
  return "{\"format\": \"cleave graph 1\", \"nodes\": [\n" + nodes + "]}";
}

}  // namespace

TEST_CASE("read_graph_json: reads a short graph with costs that was written by hand") {
  costed_module_graph const g(read_graph_json(R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"},
    {"name": "a", "operands": ["x"], "cost": 3, "bytes": 100},
    {"name": "b", "operands": ["x", "a"], "cost": 0.5},
    {"name": "out", "op": "output", "operands": ["b", "a"]}]})"));
  CHECK(g.nodes().size() == 2);
  CHECK(g.operands(2) == std::vector<module_graph::position>{0, 1});
  CHECK(g.outputs() == std::vector<module_graph::position>{2, 1});
  CHECK(g.weight(1) == 3);
  CHECK(g.weight(2) == 0.5);
  CHECK(g.bytes(1) == 100);
  CHECK(g.bytes(2) == 0);
  CHECK(g.has_costs());
  CHECK(snapshot_of(g).weight == std::vector<double>{3, 0.5});
}

TEST_CASE("read_graph_json: a cost may be an integer of any size") {
  auto const with_cost = [](std::string const& cost) {
    return read_graph_json(R"({"format": "cleave graph 1", "nodes": [{"name": "a", "cost": )" + cost + "}]}");
  };
  CHECK(costed_module_graph(with_cost("9223372036854775807")).weight(0) == 0x1p63);
  CHECK(costed_module_graph(with_cost("10000000000000000000")).weight(0) == 1e19);
  CHECK_THROWS_WITH_AS(with_cost("-10000000000000000000"),
                       "line 1, column 62, $.nodes[0].cost: a cost is a finite number from 0, such as 12.5",
                       json::error);
}

TEST_CASE("read_graph_json: reads the example of the documentation") {
  std::ifstream in(CLEAVE_SOURCE_DIR "/docs/graph_json.md");
  std::ostringstream page;
  page << in.rdbuf();
  auto const begin = page.str().find("```json\n") + 8;
  auto const g = read_graph_json(page.str().substr(begin, page.str().find("```", begin) - begin));
  CHECK(g.nodes().size() == 2);
  CHECK(costed_module_graph(g).weight(2) == 12.5);
}

TEST_CASE("costed_module_graph: rejects invalid costs, bytes and marks in metadata, and names the node") {
  for (std::string const what :
       {R"("cost": -1)", R"("cost": "much")", R"("cost": {"real": "nan"})", R"("bytes": -1)",
        R"("bytes": 0.5)", R"("cost": {"list": []})", R"("replicable": 1)", R"("replicable": null)"}) {
    auto g = read_graph_json(with_nodes_text("{\"name\": \"a\", \"meta\": {" + what + "}}"));
    auto const said = testing::error_text<cost_error>([&] { costed_module_graph{std::move(g)}; });
    CAPTURE(said);
    CHECK(
        said.starts_with("node 'a': its metadata '" + what.substr(1, what.find('"', 1) - 1) + "' must be "));
  }
}

TEST_CASE("costed_module_graph: replicable nodes are free and copied, if they read nothing else") {
  costed_module_graph const g(read_graph_json(R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"},
    {"name": "steps", "cost": 5, "bytes": 8, "replicable": true},
    {"name": "cos", "operands": ["steps"], "cost": 3, "bytes": 8, "replicable": true},
    {"name": "a", "operands": ["x", "cos"], "cost": 9, "bytes": 8, "replicable": true},
    {"name": "b", "operands": ["a", "cos"], "cost": 9, "bytes": 8, "replicable": false},
    {"name": "out", "op": "output", "operands": ["b"]}]})"));
  auto const s = snapshot_of(g);
  CHECK(s.replicable == std::vector<char>{1, 1, 0, 0});
  CHECK(s.weight == std::vector<double>{0, 0, 9, 9});
  CHECK(g.replicable(3));
  check_same(g, read_graph_json(write_graph_json(g)));
}

namespace {

/// Two layers, each with a cache that its run leaves for the next.
std::string const caches = R"(
    {"name": "x", "op": "placeholder", "bytes": 4},
    {"name": "past_0", "op": "placeholder", "bytes": 100, "carried": "present_0"},
    {"name": "past_1", "op": "placeholder", "bytes": 100, "carried": "present_1"},
    {"name": "present_0", "operands": ["past_0", "x"], "cost": 1, "bytes": 100},
    {"name": "y", "operands": ["x", "present_0"], "cost": 3, "bytes": 4},
    {"name": "present_1", "operands": ["past_1", "y"], "cost": 1, "bytes": 100},
    {"name": "z", "operands": ["y", "present_1"], "cost": 3, "bytes": 4},
    {"name": "out", "op": "output", "operands": ["z", "present_0", "present_1"]})";

}  // namespace

TEST_CASE("read_graph_json: reads which value each input becomes in the next run") {
  costed_module_graph const g(read_graph_json(with_nodes_text(caches)));
  CHECK(g.carries());
  CHECK(std::vector(g.carried(1).begin(), g.carried(1).end()) == std::vector<module_graph::position>{3});
  CHECK(std::vector(g.carried(2).begin(), g.carried(2).end()) == std::vector<module_graph::position>{5});
  CHECK(g.carried(0).empty());
  auto const s = snapshot_of(g);
  CHECK(s.carried.at(s.find_slot(1)) == s.find_slot(3));
  CHECK(s.group == std::vector<std::uint32_t>{0, 1, 2, 3});  // the only reader of a cache makes the next
  check_same(g, read_graph_json(write_graph_json(g)));
  CHECK_FALSE(costed_module_graph(read_graph_json(with_nodes_text(R"({"name": "a", "cost": 1})"))).carries());
  // The reader of the one and the maker of the other share a stage.
  costed_module_graph const apart(read_graph_json(with_nodes_text(R"(
    {"name": "past", "op": "placeholder", "carried": "c"},
    {"name": "a", "operands": ["past"]}, {"name": "b", "operands": ["a"]}, {"name": "c", "operands": ["b"]})")));
  CHECK(snapshot_of(apart).group == std::vector<std::uint32_t>{0, 1, 0});
}

TEST_CASE("read_graph_json: what is carried reads back equal by number, from inputs and in bodies") {
  auto const twice = read_graph_json(with_nodes_text(R"(
    {"name": "past", "op": "placeholder", "carried": 3},
    {"name": "kept", "op": "placeholder", "cost": 1, "carried": "kept"},
    {"name": "same", "operands": ["past"]}, {"name": "same", "operands": [2]})"));
  CHECK(costed_module_graph(twice).carried(0)[0] == 3);
  CHECK(costed_module_graph(twice).carried(1)[0] == 1);
  check_same(twice, read_graph_json(write_graph_json(twice)));
  CHECK(write_graph_json(twice).find("meta") == std::string::npos);
  auto const outer = read_graph_json(R"({"format": "cleave graph 1", "nodes": [], "attributes": {
    "m": {"kind": "module", "body": {"nodes": [)" +
                                     caches + "]}}}}");
  check_same(outer, read_graph_json(write_graph_json(outer)));
  CHECK(costed_module_graph(outer.attributes()[0].body[0]).carried(1)[0] == 3);
  // Metadata that is no label of a value stays metadata.
  auto strange =
      read_graph_json(with_nodes_text(R"({"name": "p", "op": "placeholder", "meta": {"carried": "q"}},
    {"name": "a", "meta": {"carried": "p"}})"));
  check_same(strange, read_graph_json(write_graph_json(strange)));
  CHECK(testing::error_text<cost_error>([&] { costed_module_graph{std::move(strange)}; }) ==
        "node 'p': its metadata 'carried' must be the name of one call or placeholder, or its number");
}

TEST_CASE("split_module: pieces and the outer graph say which value each input becomes in the next run") {
  auto const g = read_graph_json(with_nodes_text(caches));
  auto const carried = [](module_graph const& of, std::string const& name) -> std::string {
    costed_module_graph const costed(of);
    for (auto const v : of.inputs())
      if (of[v].name == name) return costed.carried(v).empty() ? "none" : of[costed.carried(v)[0]].name;
    return "no such input";
  };
  auto const in_two = [&](module_node const& n) { return n.name == "present_0" || n.name == "y" ? 0 : 1; };
  auto const r = split_module(g, in_two, {.pieces = {.nodes = node_naming::original}});
  REQUIRE(r.pieces.size() == 2);
  CHECK(carried(r.graph(r.pieces[0]), "past_0") == "present_0");
  CHECK(carried(r.graph(r.pieces[1]), "past_1") == "present_1");
  CHECK(carried(r.graph(r.pieces[1]), "y") == "none");
  costed_module_graph const outer(r.outer);
  for (auto const v : r.outer.inputs())
    if (r.outer[v].name != "x") {
      auto const& present = r.outer[outer.carried(v)[0]];
      CHECK(present.target == "getitem");
      CHECK(present.metadata.back().value == module_argument{std::int64_t{100}});  // the bytes of a cache
    }
  // Put together again, the graph has the labels that it had.
  auto const whole = inline_pieces(r.outer, {r.pieces[0].path, r.pieces[1].path});
  CHECK(carried(whole, "past_0") == "present_0");
  CHECK(carried(whole, "past_1") == "present_1");
  // A cut that parts them leaves no label where the value is not.
  auto const apart = read_graph_json(with_nodes_text(R"(
    {"name": "past", "op": "placeholder", "bytes": 7, "carried": "b"},
    {"name": "a", "operands": ["past"]}, {"name": "b", "operands": ["a"]},
    {"name": "out", "op": "output", "operands": ["b"]})"));
  auto const cut = split_module(apart, [](module_node const& n) { return n.name; });
  REQUIRE(cut.pieces.size() == 2);
  CHECK(carried(cut.graph(cut.pieces[0]), "past") == "none");
  CHECK(costed_module_graph(cut.graph(cut.pieces[0])).bytes(0) == 7);
  CHECK(carried(cut.outer, "past") == "submod_b");
}

TEST_CASE(
    "write_graph_json: every field reads back equal, with exact constants and names of any characters") {
  module_graph g;
  g.add_attribute(
      {"w", module_attribute::kind::parameter, "s0", {}, "old.w", {{"bytes", {std::int64_t{4}}}}});
  module_node n;
  n.kind = node_kind::placeholder;
  n.name = "x \"quoted\"\n\u00e9";
  n.target = "**kwargs";
  n.default_value = module_argument{token()};
  n.shape = std::vector<dimension>{std::int64_t{2}, "s0*2"};
  n.symbols = {"s0", "s1"};
  n.binds = "s0";
  n.expression = "s0+s1";
  n.from = 7;
  g.add(n);
  module_node f;
  f.name = f.target = "f";
  double const inf = std::numeric_limits<double>::infinity();
  f.args = {{container{container::kind::dict, 2}, std::string("k"), node_ref{0}, std::int64_t{-3},
             container{container::kind::slice, 3}, token(), true, 0.1},
            {container{container::kind::tuple, 0}},
            {container{container::kind::list, 4}, 3.0, inf, -0.0, 1e300},
            {opaque{"dtype", "float32"}},
            {opaque{"node", "a trap"}},
            {std::numeric_limits<std::int64_t>::min()}};
  f.kwargs = {{"zeta", {false}}, {"alpha", {std::string()}}};
  f.metadata = {{"cost", {1.5}}, {"bytes", {std::int64_t{12}}}, {"from", {std::string("x")}}};
  auto const at = g.add(f);
  module_node h;
  h.name = h.target = "h";
  h.after = {at};
  h.metadata = {{"bytes", {std::int64_t{12}}}, {"cost", {2.0}}};
  g.add(h);
  g.metadata = {{"note", {std::string("a")}}};
  check_same(g, read_graph_json(write_graph_json(g)));
  check_same(g, read_graph_json(write_graph_json(g, cleave::json::writer::layout::compact)));
}

TEST_CASE("write_graph_json: random graphs and their splits read back equal") {
  testing::rng random(71);
  for (int round = 0; round < 500; ++round) {
    auto const g = testing::random_module_graph(random, 1 + random.below(20), random.below(3));
    check_same(g, read_graph_json(write_graph_json(g)));
    try {
      auto const r = split_module(g, [&](module_node const&) { return std::to_string(random.below(2)); });
      check_same(r.outer, read_graph_json(write_graph_json(r.outer)));
    } catch (error const&) {
    }
  }
}

TEST_CASE("write_graph_json: equal names of nodes, deep bodies and deep arguments read back equal") {
  module_graph g;
  module_node n;
  n.name = n.target = "same";
  g.add(n);
  n.args = {node_argument(0)};
  g.add(n);
  check_same(g, read_graph_json(write_graph_json(g)));

  module_graph inside;
  for (int depth = 0; depth < 200; ++depth) {
    module_graph around;
    around.add_attribute({"m", module_attribute::kind::module, {}, {}, {}, {}});
    around.add_attribute({"next", module_attribute::kind::module, {}, {inside}, {}, {}});
    inside = std::move(around);
  }
  check_same(inside, read_graph_json(write_graph_json(inside)));
  module_argument nested(400, container{container::kind::list, 1});
  nested.push_back(true);
  n.args = {nested};
  g.add(n);
  check_same(g, read_graph_json(write_graph_json(g)));
}

TEST_CASE("read_graph_json: rejects an invalid graph with the place and the reason") {
  auto const node = [](std::string const& text) {
    auto const said =
        refusal(with_nodes_text("{\"name\": \"x\", \"op\": \"placeholder\"},\n{\"name\": \"a\"},\n" + text));
    return said.substr(said.find(": ") + 2);
  };
  CHECK(refusal("{\"nodes\": []}") ==
        "line 1, column 1, $: is missing the key 'format'; expected the format \"cleave graph 1\"");
  CHECK(refusal("{\"format\": 1, \"nodes\": []}") == "line 1, column 12, $.format: expected a text, got 1");
  CHECK(refusal("{\"format\": \"cleave graph 9\", \"nodes\": []}") ==
        "line 1, column 12, $.format: expected the format \"cleave graph 1\"");
  CHECK(refusal(with_nodes_text("{\"name\": \"b\", \"args\": [{\"node\": \"c\"}]}")) ==
        "line 2, column 33, $.nodes[0].args[0].node: no earlier node has the name 'c'");
  CHECK(node("{}") == "is missing the key 'name'");
  CHECK(node(R"({"name": "b", "op": "conv"})") == "unknown kind of node 'conv'");
  CHECK(node(R"({"name": "b", "operands": [2]})") == "node 2 does not come before this one");
  CHECK(node(R"({"name": "b", "operands": [], "args": []})") == "a node can have args or operands, not both");
  CHECK(node(R"({"name": "b", "args": [[1]]})") ==
        "a list is written {\"list\": […]}, a tuple {\"tuple\": […]}");
  CHECK(node(R"({"name": "b", "args": [{}]})") == "expected an object with one key");
  CHECK(node(R"({"name": "b", "args": [{"slice": [1]}]})") == "a slice has three elements");
  CHECK(node(R"({"name": "b", "args": [{"dict": [[1]]}]})") == "expected a key and a value, [key, value]");
  CHECK(node(R"({"name": "b", "args": [{"opaque": ["a"]}]})") == "expected a kind and a text");
  CHECK(node(R"({"name": "b", "args": [{"real": "x"}]})") == "expected a floating-point number");
  CHECK(node(R"({"name": "b", "args": [{"dtype": 3}]})") == "expected a text, got 3");
  CHECK(node(R"({"name": "b", "after": ["x"]})") == "'after' must name calls");
  CHECK(node(R"({"name": "b", "symbols": ["s1", "s0"]})") ==
        "symbols must be sorted as text, without repetition");
  CHECK(node(R"({"name": "b", "shape": [0.5]})") == "expected an integer of 64 bits, got 0.5");
  CHECK(node(R"({"name": "b", "cost": 1, "meta": {"cost": 2}})") ==
        "'cost' is already given as a member of the node; keep one");
  CHECK(node(R"({"name": "b", "meta": {"of": {"list": [{"node": "x"}]}}})") ==
        "metadata must not refer to nodes");
  CHECK(node(R"({"name": "b", "cost": {"node": "x"}})") == "metadata must not refer to nodes");
  for (std::string const cost :
       {"-1", "\"much\"", "{\"real\": \"nan\"}", "{\"real\": \"inf\"}", "true", "null"})
    CHECK(node("{\"name\": \"b\", \"cost\": " + cost + "}") ==
          "a cost is a finite number from 0, such as 12.5");
  for (std::string const bytes : {"-1", "0.5", "\"4 KiB\"", "{\"list\": []}"})
    CHECK(node("{\"name\": \"b\", \"bytes\": " + bytes + "}") ==
          "bytes are an integer from 0, such as 4096; leave them out if they are unknown");
  for (std::string const mark : {"1", "\"yes\"", "null"})
    CHECK(node("{\"name\": \"b\", \"replicable\": " + mark + "}") == "replicable is true or false");
  CHECK(node(R"({"name": "b", "carried": "x"})") ==
        "only a placeholder can be carried: give the placeholder the name of this node");
  auto const input = [&](std::string const& label) {
    return node(
        R"({"name": "w", "op": "get_attr"}, {"name": "a"}, {"name": "i", "op": "placeholder", "carried": )" +
        label + R"(}, {"name": "o", "op": "output"})");
  };
  CHECK(input(R"("b")") == "no node has the name 'b'");
  CHECK(input("6") == "node 6 does not exist; the graph has 6");
  CHECK(input(R"("a")") == "two nodes have the name 'a'; refer to the node by its number");
  CHECK(input(R"("w")") ==
        "names get_attr 'w'; name the call or placeholder whose value this is in the next run");
  CHECK(input("5") == "names output 'o'; name the call or placeholder whose value this is in the next run");
  CHECK(input("-1") == "expected an integer of 32 bits, not negative, got -1");
  CHECK(input("true") == "expected a text, got true");
  CHECK(input(R"("x", "meta": {"carried": "x"})") ==
        "'carried' is already given as a member of the node; keep one");
  CHECK(refusal(with_nodes_text("{\"name\": \"i\", \"op\": \"placeholder\", \"carried\": \"b\"}")) ==
        "line 2, column 47, $.nodes[0].carried: no node has the name 'b'");
  CHECK(refusal(with_nodes_text("{\"name\": \"b\", \"cost\": -1}")) ==
        "line 2, column 23, $.nodes[0].cost: a cost is a finite number from 0, such as 12.5");
  CHECK(node(R"({"name": "b", "default": 1})") == "only a placeholder can have a default");
  CHECK(node(R"({"name": "b", "op": "placeholder", "default": {"node": "x"}})") ==
        "a default must not refer to nodes");
  CHECK(node(R"({"name": "b", "op": "placeholder", "args": [1]})") ==
        "only calls and the output can have args");
  CHECK(node(R"({"name": "b", "op": "get_attr", "operands": ["x"]})") ==
        "only calls and the output can have operands");
  CHECK(node(R"({"name": "b", "op": "get_attr", "kwargs": {"k": 1}})") ==
        "only calls and the output can have kwargs");
  CHECK(node(R"({"name": "f"}, {"name": "b", "op": "placeholder", "after": ["f"]})") ==
        "only calls and the output can have after");
  CHECK(node(R"({"name": "b", "size": 1})") == "unknown key 'size'");
  CHECK(node(R"({"name": "a"}, {"name": "b", "operands": ["a"]})") ==
        "two nodes have the name 'a'; refer to the node by its number");
  CHECK(node(R"({"name": "o", "op": "output"}, {"name": "p", "op": "output"})") ==
        "a second output node; a graph has one");
  auto const attribute = [](std::string const& text) {
    auto const said =
        refusal("{\"format\": \"cleave graph 1\", \"nodes\": [], \"attributes\": {\"w\": " + text + "}}");
    return said.substr(said.find(": ") + 2);
  };
  CHECK(attribute("{}") == "is missing the key 'kind'");
  CHECK(attribute(R"({"kind": "thing"})") == "expected tensor, parameter, buffer or module");
  CHECK(attribute(R"({"kind": "tensor", "body": {"nodes": []}})") == "only a module can have a body");
  CHECK(attribute(R"({"kind": "module", "body": {}})") == "is missing the key 'nodes'");
  CHECK(attribute(R"({"kind": "tensor", "meta": {"a": {"node": 0}}})") == "metadata must not refer to nodes");
}
