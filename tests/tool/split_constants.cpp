// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cleave/formats/stage_map_json.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"
#include "support/scratch_folder.hpp"
#include "support/tool.hpp"

namespace {

using cleave::testing::onnx_text;
using cleave::testing::run_tool;
using cleave::testing::scratch_folder;
using cleave::testing::text_of_file;
using json = nlohmann::json;
using strings = std::vector<std::string>;

/// Two layers whose weights are transposed by nodes, and a random node that reads a weight.
::onnx::ModelProto two_layers() {
  auto m = onnx_text(R"(f (float[8, 8] x) => (float[8, 8] y) <float[8, 8] w, float[8, 8] v> {
    p = Transpose(w)
    q = Identity(p)
    r = RandomNormalLike(v)
    a = MatMul(x, q)
    b = Add(a, r)
    c = MatMul(b, p)
    y = MatMul(c, q)
  })");
  auto& g = *m.mutable_graph();
  for (auto& n : *g.mutable_node()) n.set_name("make_" + n.output(0));
  g.clear_value_info();
  for (auto const* name : {"w", "v"}) {
    auto& t = *g.add_initializer();
    t.set_name(name);
    t.set_data_type(::onnx::TensorProto::FLOAT);
    for (int i = 0; i < 2; ++i) t.add_dims(8);
    for (int i = 0; i < 64; ++i) t.add_float_data(static_cast<float>(i));
  }
  return m;
}

std::string written(scratch_folder const& to, ::onnx::ModelProto const& m) {
  auto const file = to / "model.onnx";
  std::ofstream out(file, std::ios::binary);
  REQUIRE(m.SerializeToOstream(&out));
  return file;
}

bool has(std::string const& text, std::string const& what) { return text.find(what) != std::string::npos; }

}  // namespace

TEST_CASE("cleave split: copies nodes of weights alone, sends none of their results, and says so") {
  scratch_folder const at;
  auto const file = written(at, two_layers());
  auto const r = run_tool({"split", file, "-k", "3", "--json", "--out", at / "stages", "--map",
                           at / "map.json", "--report", at / "page.html"});
  INFO(r.to_stderr);
  REQUIRE(r.exit == 0);
  auto const said = json::parse(r.said);
  CHECK(said.at("constants").at("nodes") == 2);
  CHECK(said.at("constants").at("not_copied") == 1);
  std::size_t copies = 0, placed = 0;
  auto const map = cleave::read_stage_map_json(text_of_file(at / "map.json"));
  REQUIRE(said.at("stages").size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    auto const& stage = said.at("stages")[i];
    placed += stage.at("nodes").size();
    copies += stage.at("constants").size();
    CHECK(map.stages.at(i).nodes.size() == stage.at("nodes").size());
    CHECK(map.stages.at(i).constants.size() == stage.at("constants").size());
    for (auto const& n : stage.at("constants")) CHECK((n == 0 || n == 1));
    auto const model = cleave::testing::read_model(stage.at("file").get<std::string>());
    CHECK(static_cast<std::size_t>(model.graph().node_size()) ==
          stage.at("nodes").size() + stage.at("constants").size());
    for (auto const& in : stage.at("inputs")) CHECK((in != "p" && in != "q"));
  }
  CHECK(placed == 5);
  CHECK(said.at("constants").at("copies") == copies);
  for (auto const& t : said.at("transfers")) CHECK((t.at("value") != "p" && t.at("value") != "q"));

  auto const text = run_tool({"split", file, "-k", "3"}).said;
  CAPTURE(text);
  CHECK(has(
      text,
      "note: 2 nodes of weights alone, in " + std::to_string(copies) +
          " copies where results are read; none of these results is sent, and they cost nothing: runtimes "
          "make them once, at load\n"));
  CHECK(has(text, "note: 1 node of weights alone not copied, since it may be random: 'make_r'\n"));
  CHECK(has(text_of_file(at / "page.html"), "Run at load"));

  auto const whole = json::parse(run_tool({"inspect", file, "--json"}).said);
  CHECK(whole.at("live_nodes") == 5);
  CHECK(whole.at("constant_nodes") == 2);
  CHECK(has(run_tool({"inspect", file}).said,
            "5 nodes; the others are constants or reach no output, or depend on weights alone (2)"));
}

TEST_CASE("cleave split --by: rules need no stage for nodes of weights alone, and ignore one") {
  scratch_folder const at;
  auto m = two_layers();
  for (auto& n : *m.mutable_graph()->mutable_node())
    if (n.output(0) != "p")
      n.set_doc_string(n.output(0) == "y" ? "last" : n.output(0) == "q" ? "alone" : "first");
  auto const file = written(at, m);
  auto const stages = [&](std::string const& rule) {
    auto const r = run_tool({"split", file, "--by", rule, "--json"});
    INFO(r.to_stderr);
    REQUIRE(r.exit == 0);
    std::vector<strings> names;
    auto const said = json::parse(r.said);
    for (auto const& stage : said.at("stages")) names.push_back(stage.at("names").get<strings>());
    return names;
  };
  std::vector<strings> const expected = {{"make_r", "make_a", "make_b", "make_c"}, {"make_y"}};
  CHECK(stages("tags") == expected);
  std::ofstream(at / "parts.txt") << "make_r 0\nmake_a 0\nmake_b 0\nmake_c 0\nmake_y 1\n";
  CHECK(stages("file=" + (at / "parts.txt")) == expected);
  std::ofstream(at / "all.txt") << "make_p x\nmake_q 0\nmake_r 0\nmake_a 0\nmake_b 0\nmake_c 0\nmake_y 1\n";
  CHECK(stages("file=" + (at / "all.txt")) == expected);
  std::ofstream(at / "few.txt") << "make_r 0\nmake_a 0\nmake_b 0\nmake_y 1\n";
  auto const r = run_tool({"split", file, "--by", "file=" + (at / "few.txt")});
  CHECK(r.exit == 3);
  CHECK(has(r.to_stderr, "there is no entry for node make_c (#5)"));
}

TEST_CASE("cleave split: no cut sends a value of unknown type, and an error says which -k works") {
  scratch_folder const at;
  auto m =
      onnx_text(R"(f (float[2] x) => (float[2] y) { a = Relu(x)  b = Relu(a)  c = Relu(b)  y = Relu(c) })");
  auto& acme = *m.add_opset_import();
  acme.set_domain("acme");
  acme.set_version(1);
  m.mutable_graph()->mutable_node(1)->set_domain("acme");
  for (auto& n : *m.mutable_graph()->mutable_node()) n.set_name("make_" + n.output(0));
  auto const file = written(at, m);

  auto const two = json::parse(run_tool({"split", file, "-k", "2", "--json", "--out", at / "stages"}).said);
  REQUIRE(two.at("transfers").size() == 1);
  CHECK(two.at("transfers")[0].at("value") == "a");
  CHECK(two.at("untyped") == json({"b", "c"}));
  CHECK(has(
      run_tool({"split", file, "-k", "2"}).said,
      "note: of unknown type, so that no cut can send them: 'b', 'c' (give shapes and types with --shape)"));

  auto const three = run_tool({"split", file, "-k", "3"});
  CHECK(three.exit == 3);
  CHECK(has(three.to_stderr,
            "a cut into 3 stages would send values whose types are not known: 'b', 'c'; at most 2 "
            "stages are possible (-k 2)"));
  CHECK(run_tool({"split", file, "-k", "4", "--shape", "b=float32:2"}).exit == 0);

  std::ofstream(at / "parts.txt") << "make_a 0\nmake_b 0\nmake_c 1\nmake_y 1\n";
  auto const by = run_tool({"split", file, "--by", "file=" + (at / "parts.txt")});
  CHECK(by.exit == 3);
  CHECK(has(by.to_stderr,
            "value 'b', which node #1 'make_b' (Relu, makes 'b') makes, is read in another stage, but "
            "its type is not known"));
}
