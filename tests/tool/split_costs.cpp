// SPDX-License-Identifier: MIT
// `cleave split --costs`: costs measured by onnxruntime, or listed in CSV.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

namespace {

using words = std::vector<std::string>;

/// A folder with a chain of six nodes n0 to n5, whose results are a to f.
struct scene {
  scratch_folder folder;
  std::string model = folder / "chain.onnx", costs = folder / "costs";

  scene() {
    auto m = onnx_text(R"(chain (float[64] x) => (float[64] f) {
      a = Exp(x)  b = Relu(a)  c = Exp(b)  d = Relu(c)  e = Exp(d)  f = Relu(e) })");
    name_nodes(m);
    save(m);
  }
  static void name_nodes(::onnx::ModelProto& m) {
    for (int i = 0; i < m.graph().node_size(); ++i)
      m.mutable_graph()->mutable_node(i)->set_name("n" + std::to_string(i));
  }
  void save(::onnx::ModelProto const& m) const {
    std::ofstream(model, std::ios::binary) << m.SerializeAsString();
  }

  json split(std::string const& text, words const& more = {"-k", "2", "--flops-per-byte", "0"}) const {
    std::ofstream(costs) << text;
    words line{"split", model, "--costs", costs, "--json"};
    line.insert(line.end(), more.begin(), more.end());
    auto const r = run_tool(line);
    CAPTURE(r.to_stderr);
    REQUIRE(r.exit == 0);
    return json::parse(r.said);
  }
  std::string refused(std::string const& text) const {
    std::ofstream(costs) << text;
    auto const r = run_tool({"split", model, "--costs", costs});
    CHECK(r.exit == 3);
    return r.to_stderr;
  }
};

std::vector<double> costs_of(json const& said) {
  std::vector<double> costs;
  for (auto const& stage : said.at("stages")) costs.push_back(stage.at("cost").get<double>());
  return costs;
}

/// An event of a profile, in microseconds.
std::string event(std::string const& name, int begin, int duration, std::string const& args = "") {
  return R"({"cat":"Node","pid":1,"tid":1,"ph":"X","name":")" + name + R"(_kernel_time","ts":)" +
         std::to_string(begin) + R"(,"dur":)" + std::to_string(duration) + R"(,"args":{)" + args + "}}";
}

std::string profile(std::vector<std::string> const& events) {
  std::string text =
      R"([{"cat":"Session","pid":1,"tid":1,"ph":"X","name":"model_run","ts":0,"dur":9,"args":{}})";
  for (auto const& e : events) text += ",\n" + e;
  return text + "\n]\n";
}

}  // namespace

TEST_CASE("cleave split --costs: CSV replaces the estimated costs, and the estimates stand beside them") {
  scene const s;
  auto const plain = json::parse(run_tool({"split", s.model, "-k", "2", "--json"}).said);
  auto const said = s.split("name,time\nn0,50ms\nn1,10ms\nn2,0.01\nn3,10000us\nn4,1e7ns\n\"n5\",10 ms\n");
  CHECK(costs_of(said)[0] == doctest::Approx(0.05));
  CHECK(costs_of(said)[1] == doctest::Approx(0.05));
  CHECK(said.at("stages")[0].at("names") == json{"n0"});
  CHECK(said.at("gap") == 0);
  double predicted = 0, estimated = 0;
  for (auto const& stage : said.at("stages")) predicted += stage.at("predicted_cost").get<double>();
  for (auto const& stage : plain.at("stages")) estimated += stage.at("cost").get<double>();
  CHECK(predicted == doctest::Approx(estimated));
  CHECK(said.at("measured").at("measured") == 6);
  CHECK(!plain.contains("measured"));
}

TEST_CASE("cleave split --costs: CSV may begin with the byte order mark of a spreadsheet") {
  scene const s;
  auto const said =
      s.split("\xef\xbb\xbfname,time\r\nn0,2\r\nn1,1\r\nn2,1\r\nn3,1\r\nn4,1\r\nn5,1\r\n", {"-k", "1"});
  CHECK(costs_of(said) == std::vector<double>{7});
}

TEST_CASE("cleave split --costs: several runs of a node count as their median") {
  scene const s;
  auto const said = s.split("n0,1s\nn0,3ms\nn0,2ms\nn1,1ms\nn1,2ms\nn2,0\nn3,0\nn4,0\nn5,0\n", {"-k", "1"});
  CHECK(costs_of(said)[0] == doctest::Approx(0.003 + 0.0015));
  CHECK(said.at("measured").at("runs") == 3);
}

TEST_CASE(
    "cleave split --costs: nodes without a measured cost are estimated on the measured scale, and named") {
  scene const s;
  auto const plain = json::parse(run_tool({"split", s.model, "-k", "6", "--json"}).said);
  auto const all = costs_of(plain);
  auto const said = s.split("n0," + std::to_string(7 * all[0]) + "s\n#2," + std::to_string(7 * all[2]) + "\n",
                            {"-k", "6", "--flops-per-byte", "0"});
  CHECK(said.at("measured").at("scaled") == 4);
  CHECK(said.at("measured").at("scale").get<double>() ==
        doctest::Approx(7).epsilon(0.2));  // times have 6 digits
  auto const scale = said.at("measured").at("scale").get<double>();
  CHECK(costs_of(said)[1] == doctest::Approx(scale * all[1]));
  auto const remarks = said.at("remarks").dump();
  CHECK(remarks.find("2 of 6 nodes measured") != std::string::npos);
  CHECK(remarks.find("4 nodes without a measured cost, priced by the static model times") !=
        std::string::npos);
  CHECK(remarks.find("'n1', 'n3', 'n4', 'n5'") != std::string::npos);
}

TEST_CASE("cleave split --costs: names joined by + share a time in proportion to their estimates") {
  scene const s;
  auto const all = costs_of(json::parse(run_tool({"split", s.model, "-k", "6", "--json"}).said));
  auto const said = s.split("n0+n1,30ms\nn2,0\nn3,0\nn4,0\nn5,0\n", {"-k", "6", "--flops-per-byte", "0"});
  CHECK(costs_of(said)[0] == doctest::Approx(0.03 * all[0] / (all[0] + all[1])));
  CHECK(costs_of(said)[1] == doctest::Approx(0.03 * all[1] / (all[0] + all[1])));
  CHECK(said.at("measured").at("shared") == 2);
}

TEST_CASE("cleave split --costs: a profile's fused nodes share their time with the nodes that it lacks") {
  scene const s;
  // n0 took in n1; a node named by the value d made n2 and n3; n5 kept its name, with a suffix.
  auto const said =
      s.split(profile({event("n0", 0, 1000), event("d_nchwc", 1000, 500), event("n4", 2000, 300),
                       event("ReorderOutput_token_7", 2300, 100), event("n5/ReluFusion/", 2400, 100)}),
              {"-k", "6", "--flops-per-byte", "0"});
  auto const c = costs_of(said);
  CHECK(c[0] + c[1] == doctest::Approx(1e-3));
  CHECK(c[2] + c[3] == doctest::Approx(5e-4));
  CHECK(c[4] == doctest::Approx(3e-4));
  CHECK(c[5] == doctest::Approx(1e-4));
  for (auto const cost : c) CHECK(cost > 0);
  auto const& m = said.at("measured");
  CHECK(m.at("measured") == 2);
  CHECK(m.at("shared") == 4);
  CHECK(m.at("scaled") == 0);
  CHECK(m.at("elsewhere").get<double>() == doctest::Approx(1e-4));
  CHECK(said.at("remarks").dump().find("'ReorderOutput_token_7'") != std::string::npos);
}

TEST_CASE("cleave split --costs: a profile with three runs, events of bodies, and unnamed nodes") {
  scene const s;
  auto m = onnx_text(R"(g (bool i, float[64] x) => (float[64] y) {
    k = Constant <value = float[1] {2.0}> ()
    a = Mul(x, k)
    b = Exp(a)
    y = If (i) <then_branch = t () => (float[64] t1) { t1 = Exp(b) },
                else_branch = e () => (float[64] e1) { e1 = Sin(b) }> })");
  s.save(m);
  std::vector<std::string> events;
  for (int run = 0; run < 3; ++run) {  // onnxruntime counts the positions in a body from 0, and no constants
    auto const at = 10'000 * run;
    events.push_back(event("Mul_0", at, 100 + run));
    events.push_back(event("Exp_1", at + 200, 200 + run));
    events.push_back(event("Exp_0", at + 510, 900));
    events.push_back(event("If_2", at + 500, 1000 + run));
  }
  auto const said = s.split(profile(events), {"-k", "3", "--flops-per-byte", "0"});
  auto const c = costs_of(said);
  CHECK(c == std::vector<double>{101e-6, 201e-6, 1001e-6});
  CHECK(said.at("measured").at("measured") == 3);
  CHECK(said.at("measured").at("runs") == 3);
}

TEST_CASE("cleave split --costs: nodes that depend on no input and are missing in a profile are free") {
  scene const s;
  auto m = onnx_text(R"(g (float[2,3] x) => (float[2,2] y) <float[2,3] w = {1,2,3,4,5,6}> {
    t = Transpose(w)  y = MatMul(x, t) })");
  scene::name_nodes(m);
  s.save(m);
  auto const said = s.split(profile({event("n1", 0, 50)}), {"-k", "1"});
  CHECK(costs_of(said)[0] == doctest::Approx(50e-6));
  CHECK(said.at("measured").at("folded") == 1);
}

TEST_CASE("cleave split --costs: a profile gives the sizes that shape inference cannot find") {
  scene const s;
  auto m = onnx_text(
      "g (float[64] x, int64[2] s) => (float[?,?] y) { a = Reshape(x, s)  b = Exp(a)  y = Exp(b) }");
  scene::name_nodes(m);
  s.save(m);
  auto const plain = json::parse(run_tool({"split", s.model, "-k", "3", "--json"}).said);
  CHECK(plain.at("bound").is_null());
  std::string const shape = R"("output_type_shape":[{"float":[8,8]}])";
  auto const said =
      s.split(profile({event("n0", 0, 50, shape), event("n1", 60, 50, shape), event("n2", 120, 50, shape)}),
              {"-k", "3"});
  CHECK(said.at("unpriced").at("nodes") == 0);
  CHECK(said.at("unpriced").at("values") == 0);
  CHECK(!said.at("bound").is_null());
  CHECK(said.at("transfers")[0].at("bytes") == 256);
}

TEST_CASE("cleave split --costs: events of the category Shape give sizes, and no time") {
  scene const s;
  auto m = onnx_text(
      "g (float[64] x, int64[2] s) => (float[?,?] y) { a = Reshape(x, s)  b = Exp(a)  y = Exp(b) }");
  scene::name_nodes(m);
  s.save(m);
  auto const sized = [](std::string const& name) {
    return R"({"cat":"Shape","name":")" + name +
           R"(_kernel_time","args":{"output_type_shape":[{"float":[8,4]}]}})";
  };
  auto const said =
      s.split(profile({event("n0", 0, 50), event("n2", 120, 50), sized("n0"), sized("n1")}), {"-k", "3"});
  CHECK(said.at("unpriced").at("values") == 0);
  CHECK(said.at("transfers")[1].at("bytes") == 128);
  CHECK(said.at("measured").at("measured") == 2);
}

TEST_CASE("cleave split --costs: bytes in CSV are the size of the result") {
  scene const s;
  auto const said = s.split("n0,1ms,4KiB\nn1,1ms,17\nn2,1ms\nn3,1ms\nn4,1ms\nn5,1ms\n", {"-k", "6"});
  CHECK(said.at("transfers")[0].at("bytes") == 4096);
  CHECK(said.at("transfers")[1].at("bytes") == 17);
  CHECK(said.at("transfers")[2].at("bytes") == 256);
}

TEST_CASE("cleave split --costs: text and report show predicted and measured costs per stage") {
  scene const s;
  std::ofstream(s.costs) << "n0,50ms\nn1,10ms\nn2,10ms\nn3,10ms\nn4,10ms\nn5,10ms\n";
  auto const r = run_tool({"split", s.model, "-k", "2", "--costs", s.costs, "--report", s.folder / "r.html"});
  std::istringstream lines(r.said);
  std::string title, head, row;
  REQUIRE(std::getline(std::getline(std::getline(lines, title), head), row));
  CHECK(head.find("predicted   measured") != std::string::npos);
  CHECK(row.find("50.0\u00a0ms") != std::string::npos);
  CHECK(std::ranges::count(row, 's') == 3);  // predicted, measured and load have a unit
  CHECK(r.said.find("note: costs from ") != std::string::npos);
  auto const page = text_of_file(s.folder / "r.html");
  CHECK(page.find("Predicted cost") != std::string::npos);
  CHECK(page.find("Measured cost") != std::string::npos);
}

TEST_CASE("cleave split --costs: prices the calls of a graph in JSON") {
  scene const s;
  auto const graph = s.folder / "g.json";
  std::ofstream(graph) << R"({"format": "cleave graph 1", "nodes": [{"name": "x", "op": "placeholder"},
    {"name": "a", "operands": ["x"], "cost": 2}, {"name": "b", "operands": ["a"], "cost": 4},
    {"name": "c", "operands": ["b"]}, {"name": "y", "op": "output", "operands": ["c"]}]})";
  std::ofstream(s.costs) << "a,6,64\nc,1\n";
  auto const r =
      run_tool({"split", graph, "-k", "3", "--costs", s.costs, "--json", "--out", s.folder / "out"});
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const said = json::parse(r.said);
  CHECK(costs_of(said)[0] == 6);
  CHECK(costs_of(said)[2] == 1);
  CHECK(said.at("stages")[0].at("predicted_cost") == 2);
  CHECK(said.at("measured").at("scaled") == 1);
  CHECK(costs_of(said)[1] == doctest::Approx(4 * said.at("measured").at("scale").get<double>()));
  CHECK(said.at("unpriced").at("nodes") == 0);
  CHECK(text_of_file(s.folder / "out/stage_0.json").find("64") != std::string::npos);
}

TEST_CASE("cleave split --costs: names the file, the line and the remedy of what is wrong") {
  scene const s;
  auto const has = [](std::string const& text, std::string const& part) {
    CAPTURE(text);
    CAPTURE(part);
    CHECK(text.find(part) != std::string::npos);
  };
  has(s.refused("n0,1\nm1,2\n"), "costs, line 2: no node is called 'm1'; nearest: 'n1'");
  has(s.refused("n0+n9,1\n"), "line 1: no node is called 'n0+n9'");
  for (std::string const twice : {"n0,1\nn0+n1,1\n", "n0+n1,1\nn0,1\n", "n0,1\n#0,1\n", "n1+n0,1\nn0+n2,1\n"})
    has(s.refused(twice), "line 2: node 'n0' has a time on another line; keep one of them");
  has(s.refused("n0+n1,1,64\n"),
      "line 1: 'n0+n1' are several nodes, whose sizes one number cannot give; leave out the bytes");
  has(s.refused("n0,-1\n"), "line 1: the time of 'n0' is negative: -1");
  for (std::string const bad : {"nan", "inf", "abc", "1.5 min", "", "1e999"})
    has(s.refused("name,time\nn0," + bad + "\n"), "line 2: '" + bad + "' is not a time; write seconds");
  has(s.refused("n0;1\n"), "line 1: expected name,time or name,time,bytes, found 'n0;1' without a comma");
  has(s.refused("node,ms\nn0,1\n"),
      "line 1: 'ms' is not a time; write seconds, or a unit as in 1.5ms (s, ms, us, ns); a header begins "
      "with "
      "name,");
  has(s.refused("n0,1,2,3\n"), "found 4 fields");
  has(s.refused(",1\n"), "line 1: the name is empty");
  has(s.refused("n0,1,many\n"), "line 1: 'many' is not a size");
  has(s.refused(""), "costs: has no costs; expected lines of name,time");
  has(s.refused("name,time\n"), "has no costs");
  has(s.refused("[1]"), "line 1, column 2, $[0]: is not an event; expected a profile of onnxruntime");
  has(s.refused("{\"nodes\": []}"), "is not a list of events");
  has(s.refused("[]"), "has no event of a node that ran");
  has(s.refused("[{\"cat\": \"Node\""), "line 1, column ");
  has(s.refused(profile({event("n0", 0, -5)})), "line 2, column ");
  has(s.refused(profile({event("n0", 0, -5)})), "the time of 'n0' is negative");
  has(s.refused(profile({event("n0", 0, 5), event("other", 5, 500)})),
      "99.0\u00a0% of the time is in nodes that the model does not have: 'other'");
  auto const r = run_tool({"split", s.model, "--costs", s.folder / "none.csv"});
  CHECK(r.exit == 3);
  has(r.to_stderr, "none.csv: cannot be opened");
}
