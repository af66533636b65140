// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;
using nlohmann::json;

TEST_CASE("cleave: says that shape inference failed, and goes on without it") {
  scratch_folder const at;
  std::ofstream(at / "m.onnx", std::ios::binary)
      << onnx_text(  // libonnx divides by the strides
             "f (float[2, 3, 4, 5] x) => (float[] y) "
             "{ y = MaxPool<kernel_shape = [1, 1], strides = [0, 0]>(x) }")
             .SerializeAsString();
  auto const r = run_tool({"inspect", at / "m.onnx"});
  CHECK(r.exit == 0);
  CHECK(
      r.to_stderr.find("note: m.onnx: libonnx's shape inference crashed, took too long or had no process") !=
      std::string::npos);
}

TEST_CASE("cleave split: puts each node in one stage and writes the files it reports") {
  for (std::string const name : {"googlenet", "gpt2", "lstm_gru", "passthrough", "one_node"}) {
    CAPTURE(name);
    scratch_folder const out;
    auto const file = model_file(name).string();
    auto const r =
        run_tool({"split", file, "--json", "--out", out / "stages", "--report", out / "report.html"});
    REQUIRE(r.exit == 0);
    auto const said = json::parse(r.said);
    auto const whole = json::parse(run_tool({"inspect", file, "--json"}).said);

    std::vector<std::size_t> nodes;
    double largest = 0;
    for (std::size_t i = 0; i < said.at("stages").size(); ++i) {
      auto const& stage = said.at("stages")[i];
      for (auto const& n : stage.at("nodes")) nodes.push_back(n.get<std::size_t>());
      largest = std::max(largest, stage.at("load").get<double>());
      auto const written = read_model(stage.at("file").get<std::string>());
      CHECK(static_cast<std::size_t>(written.graph().node_size()) ==
            stage.at("nodes").size() + stage.at("constants").size());
      CHECK(static_cast<std::size_t>(written.graph().output_size()) == stage.at("outputs").size());
    }
    CHECK(nodes.size() == whole.at("live_nodes").get<std::size_t>());
    std::ranges::sort(nodes);
    CHECK(std::ranges::adjacent_find(nodes) == nodes.end());
    CHECK(said.at("stages").size() == std::min<std::size_t>(4, nodes.size()));
    CHECK(said.at("bottleneck").get<double>() == doctest::Approx(largest));
    CHECK(said.at("bound").get<double>() <= said.at("bottleneck").get<double>());
    for (auto const& t : said.at("transfers")) CHECK(t.at("from").get<int>() < t.at("to").get<int>());
    CHECK(text_of_file(out / "report.html").find("</html>") != std::string::npos);
  }
}

TEST_CASE("cleave split: --svg draws the picture in README.md") {
  auto const pictures = std::filesystem::path(CLEAVE_SOURCE_DIR) / "docs" / "pictures";
  auto const r = run_tool({"split", model_file("googlenet").string(), "-k", "4", "--svg"});
  CHECK(r.exit == 0);
  CHECK(r.said == text_of_file(pictures / "googlenet.svg"));
  CHECK(run_tool({"split", model_file("googlenet").string(), "--svg", "--json"}).exit == 2);
}

TEST_CASE("cleave split: equal commands give equal bytes") {
  scratch_folder const out;
  auto const file = model_file("moe").string();
  std::vector<std::string> seen;
  for (std::string const run : {"a", "b"}) {
    auto bytes = run_tool({"split", file, "-k", "4", "--report", out / (run + ".html")}).said;
    bytes.erase(bytes.rfind("  "));  // names the report
    seen.push_back(bytes + run_tool({"split", file, "-k", "4", "--json"}).said +
                   text_of_file(out / (run + ".html")));
  }
  CHECK(seen[0] == seen[1]);
}

TEST_CASE("cleave split: reports fewer stages than asked for, nothing to cut and unknown sizes") {
  CHECK(run_tool({"split", model_file("one_node").string()}).said.find("only 1 stage instead of 4") !=
        std::string::npos);
  CHECK(run_tool({"split", model_file("zero_nodes").string()}).said.find("nothing to cut") !=
        std::string::npos);
  auto const dynamic = run_tool({"split", model_file("bert_dynamic").string()}).said;
  CHECK(dynamic.find("unknown size, counted as 0 bytes") != std::string::npos);
  auto const told =
      run_tool({"split", model_file("bert_dynamic").string(), "--dim", "batch=1", "--dim", "sequence=8"})
          .said;
  CHECK(told.find("\u2265") == std::string::npos);
}

TEST_CASE("cleave split: no stage exceeds --memory") {
  auto const file = model_file("googlenet").string();
  auto const r = json::parse(run_tool({"split", file, "-k", "4", "--memory", "30KiB", "--json"}).said);
  for (auto const& stage : r.at("stages")) CHECK(stage.at("weight_bytes").get<std::size_t>() <= 30 * 1024);
}

TEST_CASE("cleave split: gives no bound if much has no price, and names the option that prices most") {
  scratch_folder const out;
  auto const file = model_file("bert_dynamic").string();
  auto const split = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"split", file, "-k", "4"};
    words.insert(words.end(), more.begin(), more.end());
    return run_tool(words).said;
  };
  auto const text = split({"--report", out / "open.html"});
  CAPTURE(text);
  CHECK(text.find(" of the priced part; no bound, for 58.2\u00a0% of nodes and 66.5\u00a0% of values have "
                  "no price") != std::string::npos);
  CHECK(text.find("above the optimum") == std::string::npos);
  CHECK(text.find("note: --shape input_ids=NxN would price most: 155 of 166 nodes and ") !=
        std::string::npos);
  CHECK(text.find("--dim batch=N --dim sequence=N together 166 and ") != std::string::npos);
  CHECK(text.find(
            "note: 190 of 285 values have no known shape; the first is input_ids int64 batchxsequence; set "
            "more with --dim batch=N, --dim sequence=N") != std::string::npos);
  auto const page = text_of_file(out / "open.html");
  CHECK(page.find("No bound is given because 58.2\u00a0% of nodes") != std::string::npos);
  CHECK(page.find("--shape input_ids=NxN would price most") != std::string::npos);
  CHECK(page.find("at least ") != std::string::npos);
  CHECK(page.find("optimum") == std::string::npos);

  auto const said = json::parse(split({"--json"}));
  CHECK(said.at("bound").is_null());
  CHECK(said.at("gap").is_null());
  CHECK(said.at("unpriced").at("nodes") == 166);
  CHECK(said.at("unpriced").at("node_share").get<double>() == doctest::Approx(166.0 / 285));
  CHECK(said.at("would_price").at("option") == "--shape input_ids=NxN");
  CHECK(said.at("would_price").at("nodes") == 155);

  // What the note says comes true.
  auto const told = json::parse(split({"--json", "--shape", "input_ids=2x8"}));
  CHECK(told.at("unpriced").at("nodes") == 11);
  auto const all = json::parse(split({"--json", "--dim", "sequence=8", "--dim", "batch=1"}));
  CHECK(all.at("unpriced").at("nodes") == 0);
  CHECK(all.at("would_price").is_null());
  CHECK(all.at("bound").get<double>() > 0);
  CHECK(split({"--dim", "sequence=8", "--dim", "batch=1"}).find("above the optimum") != std::string::npos);
}

TEST_CASE("cleave inspect: says where shapes are lost, and lists the shape of every value") {
  auto const file = model_file("bert_dynamic").string();
  auto const text = run_tool({"inspect", file}).said;
  CHECK(text.find(
            "95 of 285 known, 3 of them as an upper bound; the first is input_ids int64 batchxsequence; set "
            "more with --dim batch=N, --dim sequence=N") != std::string::npos);
  auto const said = json::parse(run_tool({"inspect", file, "--json"}).said);
  CHECK(said.at("values").at("unsized") == 190);
  CHECK(said.at("values").at("bounded") == 3);
  CHECK(said.at("first_unknown").at("name") == "input_ids");
  CHECK(!said.at("first_unknown").contains("operator"));
  CHECK(!said.contains("shapes"));

  auto const whole = model_file("googlenet").string();
  auto const known = json::parse(run_tool({"inspect", whole, "--json", "--shapes"}).said);
  CHECK(known.at("first_unknown").is_null());
  CHECK(known.at("shapes").size() == 152);
  CHECK(known.at("shapes").at("output") == "float32 1x10");
  CHECK(run_tool({"inspect", whole, "--shapes"}).said.find("  output float32 1x10   Gemm\n") !=
        std::string::npos);
}

TEST_CASE("cleave split: gives no bound for calls without a cost, and one for calls of cost 0") {
  scratch_folder const at;
  auto const said = [&](std::string const& third) {
    std::ofstream(at / "g.json") << R"({"format": "cleave graph 1", "nodes": [
      {"name": "a", "cost": 3}, {"name": "b", "operands": ["a"], "cost": 4},
      {"name": "c", "operands": ["b"])"
                                 << third << "}]}";
    return std::pair(run_tool({"split", at / "g.json", "-k", "2"}).said,
                     json::parse(run_tool({"split", at / "g.json", "-k", "2", "--json"}).said));
  };
  auto const [text, open] = said("");
  CHECK(
      text.find(
          "largest load (cost; transfers are free) 4 of the priced part; no bound, for 33.3\u00a0% of nodes "
          "have no price") != std::string::npos);
  CHECK(text.find("note: give each call its `cost`, 0 if it is free") != std::string::npos);
  CHECK(open.at("bound").is_null());
  auto const [closed_text, closed] = said(R"(, "cost": 0)");
  CHECK(closed_text.find("can be below 4: optimal") != std::string::npos);
  CHECK(closed.at("bound") == 4);
}

TEST_CASE("cleave split: lists the values that each stage keeps for its next run") {
  scratch_folder const out;
  auto const path = out / "decoder.onnx";
  std::ofstream(path, std::ios::binary)
      << onnx_text(
             "d (float[1,4] x, float[9,4] past_0, float[9,4] past_1) =>"
             " (float[10,4] present_0, float[10,4] present_1, float[1,4] z) {"
             " present_0 = Concat<axis = 0>(past_0, x)"
             " m = ReduceMean<axes = [0], keepdims = 1>(present_0)"
             " y = Add(x, m) present_1 = Concat<axis = 0>(past_1, y)"
             " n = ReduceMean<axes = [0], keepdims = 1>(present_1)"
             " z = Add(y, n) }")
             .SerializeAsString();
  auto const r = run_tool({"split", path, "-k", "2", "--flops-per-byte", "0", "--json"});
  REQUIRE(r.exit == 0);
  auto const said = json::parse(r.said);
  CHECK(said.at("carried") == json::parse(R"([{"stage": 0, "past": "past_0", "present": "present_0"},
                                              {"stage": 1, "past": "past_1", "present": "present_1"}])"));
  CHECK(run_tool({"split", path, "-k", "2", "--flops-per-byte", "0"})
            .said.find("keeps for its next run: 1, 1") != std::string::npos);
}
