// SPDX-License-Identifier: MIT
// cleave split and cleave inspect on graphs in JSON: copies, the price of a byte, reports.
#include <doctest/doctest.h>

#include <algorithm>
#include <cleave/formats/graph_json.hpp>
#include <cleave/formats/stage_map_json.hpp>
#include <cleave/graph/costed_module_graph.hpp>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "support/markup.hpp"
#include "support/rng.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

namespace {

/// Layers that all read a mask, which reads the positions; every second one also reads the first layer.
std::string layers(std::size_t count, bool marked, std::string const& meta = "") {
  std::string const mark = marked ? R"(, "replicable": true)" : "";
  std::string text = R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"},
    {"name": "weight", "op": "get_attr", "target": "net.weight"},
    {"name": "arange", "cost": 1, "bytes": 64)" +
                     mark + R"(},
    {"name": "mask", "target": "tril", "operands": ["arange"], "cost": 2, "bytes": 4096)" +
                     mark + "},\n";
  std::string last = "x";
  for (std::size_t i = 0; i < count; ++i) {
    auto const name = "layer_" + std::to_string(i);
    text += R"({"name": ")" + name + R"(", "target": "attend", "operands": [")" + last +
            R"(", "mask", "weight")" + (i > 1 && i % 2 == 0 ? R"(, "layer_0")" : "") +
            R"(], "cost": 100, "bytes": 256},)" + "\n";
    last = name;
  }
  return text + R"({"name": "out", "op": "output", "operands": [")" + last + R"("]}],
    "attributes": {"net.weight": {"kind": "parameter"}})" +
         (meta.empty() ? "" : ", \"meta\": {" + meta + "}") + "}";
}

/// Two nodes of cost 100; the second reads 256 bytes of the first.
std::string two_nodes(std::string const& meta) {
  return R"({"format": "cleave graph 1", "nodes": [{"name": "a", "cost": 100, "bytes": 256},
    {"name": "b", "operands": ["a"], "cost": 100}], "meta": {)" +
         meta + "}}";
}

struct scene {
  scratch_folder folder;
  std::string file = folder / "g.json";

  explicit scene(std::string const& text) { std::ofstream(file) << text; }
  child_report run(std::vector<std::string> words) const {
    words.insert(words.begin() + 1, file);
    return run_tool(words);
  }
  json said(std::vector<std::string> words) const {
    words.push_back("--json");
    auto const r = run(std::move(words));
    INFO(r.to_stderr);
    REQUIRE(r.exit == 0);
    return json::parse(r.said);
  }
};

std::string refused(child_report const& r, int code) {
  CHECK(r.exit == code);
  return r.to_stderr;
}

/// Runs a graph: the result of a call is a text of its target and its operands. Calls of pieces run these.
std::vector<std::string> run_graph(cleave::module_graph const& g, std::vector<std::string> const& inputs) {
  std::vector<std::vector<std::string>> made(g.list().size());
  std::size_t next = 0;
  for (std::uint32_t n = 0; n < g.list().size(); ++n) {
    auto const& node = g[n];
    std::vector<std::string> read;
    for (auto const m : g.operands(n)) read.push_back(made[m].front());
    using enum cleave::node_kind;
    if (node.kind == placeholder) {
      made[n] = {inputs.at(next++)};
    } else if (node.kind == output) {
      return read;
    } else if (node.kind == call_module && !g.find_attribute(node.target)->body.empty()) {
      made[n] = run_graph(g.find_attribute(node.target)->body.front(), read);
    } else if (node.target == "getitem") {
      made[n] = {made[g.operands(n).front()].at(
          static_cast<std::size_t>(std::get<std::int64_t>(node.args[1].front())))};
    } else {
      auto text = node.target + "(";
      for (auto const& operand : read) text += operand + ",";
      made[n] = {text + ")"};
    }
  }
  return {};
}

}  // namespace

TEST_CASE("cleave split GRAPH.json: a replicable node is in each stage that needs it, and never sent") {
  scene const s(layers(8, true));
  auto const out = s.folder / "out", map = s.folder / "map.json";
  auto const said = s.said({"split", "-k", "4", "--out", out, "--map", map});
  REQUIRE(said.at("stages").size() == 4);
  for (auto const& stage : said.at("stages")) {
    CHECK(stage.at("nodes") == 4);  // two layers, the mask and what it reads
    CHECK(stage.at("cost") == 200);
    auto const piece = cleave::read_graph_json(text_of_file(stage.at("file").get<std::string>()));
    std::multiset<std::string> targets;
    for (auto const n : piece.nodes()) targets.insert(piece[n].target);
    CHECK(targets == std::multiset<std::string>{"arange", "attend", "attend", "tril"});
    for (auto const n : piece.nodes())  // `from` counts in the graph that was split
      CHECK(piece[n].from == (piece[n].target == "arange" ? 2
                              : piece[n].target == "tril" ? 3
                                                          : piece[n].from));
  }
  for (auto const& stage : cleave::read_stage_map_json(text_of_file(map)).stages)
    for (auto const& name : stage.inputs) CHECK((name != "mask" && name != "arange"));

  auto const plain = scene(layers(8, false)).said({"split", "-k", "4"});
  std::size_t calls = 0;
  for (auto const& stage : plain.at("stages")) calls += stage.at("nodes").get<std::size_t>();
  CHECK(calls == 10);
}

TEST_CASE("cleave split GRAPH.json: the stages compute what the graph computes, with and without copies") {
  rng dice(3);
  for (int round = 0; round < 8; ++round) {
    std::string text = R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"})";
    std::vector<std::string> names{"x"}, free;
    auto const count = 4 + dice.below(14);
    for (std::uint32_t n = 0; n < count; ++n) {
      auto const name = "n" + std::to_string(n);
      bool const replicable = dice.one_in(3);
      auto const& from = replicable ? free : names;
      text += R"(,{"name": ")" + name + R"(", "target": "f)" + std::to_string(n) + R"(", "operands": [)";
      for (std::uint32_t i = 0; i < 2 && !from.empty(); ++i)
        text += (i > 0 ? ",\"" : "\"") + from[dice.below(static_cast<std::uint32_t>(from.size()))] + '"';
      text += R"(], "cost": )" + std::to_string(1 + dice.below(9)) + R"(, "bytes": 8)";
      text += replicable ? R"(, "replicable": true})" : "}";
      names.push_back(name);
      if (replicable) free.push_back(name);
    }
    text += R"(,{"name": "out", "op": "output", "operands": [")" + names.back() + R"(", ")" +
            names[count / 2] + R"("]}]})";
    scene const s(text);
    auto const out = s.folder / "out";
    s.said({"split", "-k", "3", "--out", out});
    auto const whole = run_graph(cleave::read_graph_json(text), {"x"});
    CHECK(run_graph(cleave::read_graph_json(text_of_file(out + "/outer.json")), {"x"}) == whole);
  }
}

TEST_CASE("cleave split GRAPH.json: says which replicable nodes it cannot copy") {
  scene const s(R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
    {"name": "a", "operands": ["x"], "cost": 1, "replicable": true},
    {"name": "b", "operands": ["a"], "cost": 1}]})");
  auto const said = s.run({"split", "-k", "2"}).said;
  CAPTURE(said);
  CHECK(said.find(
            "note: replicable, but in one stage, since inputs or other nodes of one stage are read: 'a'\n") !=
        std::string::npos);
}

TEST_CASE("cleave split GRAPH.json: the unit of the costs gives a byte its price") {
  auto const load = [](std::string const& meta, std::vector<std::string> words) {
    words.insert(words.begin(), {"split", "-k", "2"});
    auto const said = scene(two_nodes(meta)).said(words);
    CHECK(said.at("stages")[0].at("cost").get<double>() > 0);
    return said.at("bottleneck").get<double>();
  };
  double const bytes = 256;
  CHECK(load("", {}) == 100);
  CHECK(load("", {"--flops-per-byte", "0.5"}) == doctest::Approx(100 + bytes / 2));
  CHECK(load(R"("cost_unit": "apples")", {}) == 100);
  CHECK(load(R"("cost_unit": "flop")", {}) == doctest::Approx(100 + 5 * bytes));
  CHECK(load(R"("cost_unit": "flop")", {"--flops-per-byte", "2"}) == doctest::Approx(100 + 2 * bytes));
  CHECK(load(R"("cost_unit": "flop")", {"--bandwidth", "5GB/s"}) == doctest::Approx(100 + 10 * bytes));
  CHECK(load(R"("cost_unit": "s")", {}) == doctest::Approx(100 + bytes / 1e10));
  CHECK(load(R"("cost_unit": "us")", {}) == doctest::Approx(100e-6 + bytes / 1e10));
  CHECK(load(R"("cost_unit": "us")", {"--bandwidth", "100MB/s"}) == doctest::Approx(100e-6 + bytes / 1e8));
  CHECK(load(R"("cost_unit": "us")", {"--flops-per-byte", "0.01"}) == doctest::Approx(100e-6 + bytes * 1e-8));

  CHECK(scene(two_nodes(R"("cost_unit": "us")")).said({"split", "-k", "2"}).at("unit") == "s");
  auto const text = [](std::string const& meta, std::vector<std::string> more) {
    more.insert(more.begin(), {"split", "-k", "2"});
    return scene(two_nodes(meta)).run(more).said;
  };
  CHECK(text("", {}).find("note: transfers are taken as free; --flops-per-byte R gives") !=
        std::string::npos);
  CHECK(text("", {"--flops-per-byte", "0"}).find("note: ") == std::string::npos);
  CHECK(text(R"("cost_unit": "us")", {}).find("note: ") == std::string::npos);
  CHECK(text(R"("cost_unit": "us")", {}).find("largest load (cost and transfer) 100\u00a0µs;") !=
        std::string::npos);
}

TEST_CASE("cleave split: --bandwidth is the same price for a model as --flops-per-byte") {
  auto const googlenet = std::string(CLEAVE_SOURCE_DIR) + "/examples/models/googlenet.onnx";
  auto const said = [&](std::string const& option, std::string const& value) {
    auto const r = run_tool({"split", googlenet, "-k", "4", "--json", option, value});
    REQUIRE(r.exit == 0);
    return json::parse(r.said);
  };
  CHECK(said("--bandwidth", "1GB/s").at("bottleneck").get<double>() ==
        doctest::Approx(said("--flops-per-byte", "50").at("bottleneck").get<double>()));
  CHECK(said("--bandwidth", "10GB/s") == said("--flops-per-byte", "5"));
  CHECK(refused(run_tool({"split", googlenet, "--bandwidth", "1GB", "--flops-per-byte", "5"}), 2)
            .find("--bandwidth and --flops-per-byte both give the cost of a byte; leave out one") !=
        std::string::npos);
  for (auto const* rate : {"fast", "0", "10", "10/s", "-1GB/s", "10GB/h", "10Gbit/s", ""})
    CHECK(refused(run_tool({"split", googlenet, "--bandwidth", rate}), 2)
              .find("--bandwidth takes a size per second with its unit, as in 10GB/s, from 1B/s to below "
                    "16EiB/s, not '") != std::string::npos);
}

TEST_CASE("cleave split GRAPH.json: refuses what it cannot use, with the place and the remedy") {
  CHECK(
      refused(scene(layers(2, false)).run({"split", "--bandwidth", "1GB/s"}), 2)
          .find(
              "--bandwidth needs the unit of the costs: give the graph \"meta\": {\"cost_unit\": \"us\"}") !=
      std::string::npos);
  for (auto const* command : {"split", "inspect"})
    for (auto const* sizes : {"--dim=n=3", "--shape=x=3"})
      CHECK(
          refused(scene(layers(2, false)).run({command, sizes}), 2)
              .find("--dim and --shape are for ONNX models; in a graph in JSON give each node its `bytes`") !=
          std::string::npos);
  CHECK(refused(scene(layers(2, false)).run({"inspect", "--shapes"}), 2)
            .find("--shapes is for ONNX models; a graph in JSON has no shapes") != std::string::npos);
  CHECK(refused(scene(layers(2, false)).run({"split", "--weights", "link"}), 2)
            .find("--weights is for ONNX models; a graph in JSON has no weights") != std::string::npos);
  CHECK(refused(scene(layers(2, false, R"("cost_unit": 3)")).run({"split"}), 3)
            .find("g.json: the graph's meta 'cost_unit' must be a text, such as \"us\"") !=
        std::string::npos);
  CHECK(refused(scene(layers(2, false, R"("cost_origin": true)")).run({"inspect"}), 3)
            .find("g.json: the graph's meta 'cost_origin' must be a text, such as \"measured\"") !=
        std::string::npos);
  auto text = layers(2, false);
  text.replace(text.find("\"cost\": 100"), 11, "\"cost\": \"a\"");
  CHECK(refused(scene(text).run({"split"}), 3)
            .find(", $.nodes[4].cost: a cost is a finite number from 0, such as 12.5") != std::string::npos);
}

TEST_CASE(
    "cleave split GRAPH.json --report: lists each node in its stage, with the unit and the origin of costs") {
  scene const s(layers(30, true, R"("cost_unit": "us", "cost_origin": "measured on a bench")"));
  auto const file = s.folder / "page.html";
  auto const said = s.said({"split", "-k", "14", "--report", file});
  REQUIRE(said.at("stages").size() == 14);
  auto const page = read_markup(text_of_file(file));
  std::map<std::string, std::size_t> times;
  std::string all;
  std::size_t lists = 0;
  for (auto const& e : page) {
    if (e.tag != "script" && e.tag != "style") all += e.text + "\n";
    if (e.tag != "pre") continue;
    ++lists;
    for (std::size_t at = 0, end = 0; (end = e.text.find('\n', at)) != std::string::npos; at = end + 1)
      ++times[e.text.substr(e.text.rfind(' ', end) + 1, end - e.text.rfind(' ', end) - 1)];
  }
  CHECK(lists == 14);
  CHECK(times.size() == 32);
  for (auto const& [name, count] : times) CHECK(count == (name == "mask" || name == "arange" ? 14 : 1));
  for (auto const* part :
       {"Costs are in s. Origin: measured on a bench.", "3.00\u00a0ms", "Replicable calls"}) {
    CAPTURE(part);
    CHECK(all.find(part) != std::string::npos);
  }
  CHECK(refused(s.run({"split", "--by", "modules=net", "--report", file}), 2)
            .find("--report is for cuts between the nodes of a graph, not for cuts inside its modules") !=
        std::string::npos);
}

namespace {

/// Two layers, each with a cache that a run leaves for the next, and a mask that both read.
std::string const caches = R"({"format": "cleave graph 1", "nodes": [
  {"name": "x", "op": "placeholder", "bytes": 4},
  {"name": "past_0", "op": "placeholder", "bytes": 100, "carried": "present_0"},
  {"name": "past_1", "op": "placeholder", "bytes": 100, "carried": "present_1"},
  {"name": "mask", "cost": 1, "bytes": 64, "replicable": true},
  {"name": "present_0", "operands": ["past_0", "x", "mask"], "cost": 1, "bytes": 100},
  {"name": "y", "operands": ["x", "present_0"], "cost": 3, "bytes": 4},
  {"name": "present_1", "operands": ["past_1", "y", "mask"], "cost": 1, "bytes": 100},
  {"name": "z", "operands": ["y", "present_1"], "cost": 3, "bytes": 4},
  {"name": "out", "op": "output", "operands": ["z", "present_0", "present_1"]}],
  "attributes": {"net": {"kind": "module"}}})";

}  // namespace

TEST_CASE("cleave: a unit of costs shows no control characters") {
  scene const s(R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"}, {"name": "a", "operands": ["x"], "cost": 1},
    {"name": "b", "operands": ["a"], "cost": 20000000000000000000},
    {"name": "y", "op": "output", "operands": ["b"]}], "meta": {"cost_unit": "\u001b[31m\r\u0007\u202e"}})");
  auto const r = s.run({"split", "-k", "2"});
  CHECK(r.exit == 0);
  for (auto const& said : {r.said, r.to_stderr})
    for (std::string const bad : {"\x1b", "\r", "\a", "\u202e"}) CHECK(said.find(bad) == std::string::npos);
}

TEST_CASE(
    "cleave split GRAPH.json --out: stages say what their costs are, the outer graph keeps all of meta") {
  scene const s(R"({"format": "cleave graph 1", "nodes": [
    {"name": "x", "op": "placeholder"}, {"name": "a", "operands": ["x"], "cost": 1},
    {"name": "b", "operands": ["a"], "cost": 2}, {"name": "y", "op": "output", "operands": ["b"]}],
    "meta": {"note": "mine", "cost_unit": "us", "cost_origin": "measured"}})");
  auto const out = s.folder / "out";
  s.said({"split", "-k", "2", "--out", out});
  auto const meta_of = [&](std::string const& name) {
    return json::parse(text_of_file(out + "/" + name)).at("meta");
  };
  for (std::string const stage : {"stage_0.json", "stage_1.json"}) {
    CHECK(meta_of(stage).at("cost_unit") == "us");
    CHECK(meta_of(stage).at("cost_origin") == "measured");
    CHECK(!meta_of(stage).contains("note"));
    CHECK(meta_of(stage).contains("cleave.graph"));
  }
  CHECK(meta_of("outer.json").at("note") == "mine");
  CHECK(meta_of("outer.json").at("cost_unit") == "us");
}

TEST_CASE("cleave split GRAPH.json: lists the values that each stage keeps for its next run") {
  scene const s(caches);
  auto const out = s.folder / "out";
  auto const said = s.said({"split", "-k", "2", "--out", out});
  CHECK(said.at("carried") == json::parse(R"([{"stage": 0, "past": "past_0", "present": "present_0"},
                                              {"stage": 1, "past": "past_1", "present": "present_1"}])"));
  CHECK(s.run({"split", "-k", "2"})
            .said.find("note: values that each stage keeps for its next run: 1, 1; for instance 'present_0' "
                       "becomes 'past_0'") != std::string::npos);
  // The stages name their own values, and the outer graph those that stages give.
  for (auto const& name : {"stage_0.json", "stage_1.json", "outer.json"}) {
    cleave::costed_module_graph const g(cleave::read_graph_json(text_of_file(out + "/" + name)));
    std::size_t count = 0;
    for (auto const v : g.inputs())
      for (auto const present : g.carried(v)) {
        CHECK(g[v].name.starts_with("past_"));
        CHECK(g.bytes(present) == 100);
        ++count;
      }
    CHECK(count == (std::string(name) == "outer.json" ? 2 : 1));
  }
  scene const none(layers(4, true));
  CHECK(none.said({"split", "-k", "2"}).at("carried").empty());
  CHECK(none.run({"split", "-k", "2"}).said.find("next run") == std::string::npos);
}

TEST_CASE("cleave split GRAPH.json: what reads a value of the run before is in the stage that makes it") {
  auto text = caches;
  text.replace(text.find("\"past_1\", \"y\""), 13,
               "\"past_0\", \"y\"");  // the second layer reads the first cache
  scene const s(text);
  auto const said = s.said({"split", "-k", "2"});
  for (auto const& v : said.at("carried")) CHECK(v.at("stage") == said.at("carried").at(0).at("stage"));
  CHECK(said.at("carried").size() == 2);
  CHECK(
      refused(s.run({"split", "--by", "modules=net"}), 2)
          .find("--by modules cuts inside the modules of this graph, where values that a run leaves for the "
                "next (`carried`) are not kept in one stage; choose another --by") != std::string::npos);
  text.replace(text.find("\"carried\": \"present_1\""), 22, "\"carried\": \"presents\"");
  CHECK(
      refused(scene(text).run({"split"}), 3).find(", $.nodes[2].carried: no node has the name 'presents'") !=
      std::string::npos);
}

TEST_CASE("cleave inspect GRAPH.json: sums up the graph") {
  scene const s(layers(3, true, R"("cost_unit": "ms")"));
  auto const said = s.said({"inspect"});
  CHECK(said.at("nodes") == 8);
  CHECK(said.at("calls") == 5);
  CHECK(said.at("operators") == json{{"arange", 1}, {"attend", 3}, {"tril", 1}});
  CHECK(said.at("attributes") == json{{"parameter", 1}});
  CHECK(said.at("inputs") == json{"x"});
  CHECK(said.at("outputs") == json{"layer_2"});
  CHECK(said.at("costs").at("calls") == 5);
  CHECK(said.at("costs").at("sum").get<double>() == doctest::Approx(0.3));
  CHECK(said.at("costs").at("unit") == "s");
  CHECK(said.at("costs").at("origin") == "given in the file");
  CHECK(said.at("sizes") == json{{"calls", 5}, {"sum", 3 * 256}});
  CHECK(said.at("replicable") == 2);
  auto const text = s.run({"inspect"}).said;
  CAPTURE(text);
  for (auto const* part :
       {"g.json\n", "5: 3 attend, 1 arange, 1 tril\n", "1 parameter\n", "x\n", "layer_2\n",
        "of all 5 calls, in all 300\u00a0ms; given in the file\n", "2 calls may be in several stages\n"})
    CHECK(text.find(part) != std::string::npos);
  CHECK(refused(scene("{}").run({"inspect"}), 3).find("g.json: line 1, column 1, $: ") != std::string::npos);
}
