// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <opencv2/dnn.hpp>
#include <string>
#include <vector>

#include "support/markup.hpp"
#include "support/model_corpus.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

/// Returns the number of elements of a model's weights, without constants such as shapes and factors.
std::int64_t parameters_of(std::filesystem::path const& file) {
  onnx::ModelProto m;
  REQUIRE(m.ParseFromString(text_of_file(file)));
  std::int64_t sum = 0;
  for (auto const& t : m.graph().initializer()) {
    if (!t.name().ends_with(".weight") && !t.name().ends_with(".bias") && !t.name().ends_with("_token") &&
        !t.name().ends_with("_embed"))
      continue;
    std::int64_t elements = 1;
    for (auto const d : t.dims()) elements *= d;
    sum += elements;
  }
  return sum;
}

}  // namespace

TEST_CASE("cleave demo: the stages give the result of the whole model in OpenCV") {
  for (std::string const name : {"googlenet", "densenet121", "passthrough", "lstm_unrolled", "names"}) {
    CAPTURE(name);
    scratch_folder const out;
    auto const r = run_tool({"demo", model_file(name).string(), "--out", out / "demo", "-m", "3"});
    CAPTURE(r.said);
    CHECK(r.exit == 0);
    CHECK(r.to_stderr.empty());
    bool const runs = sidecar(name).at("opencv").at("runs").get<bool>();
    CHECK((r.said.find("by OpenCV DNN") != std::string::npos) == runs);
    if (runs) CHECK(r.said.find("largest difference                 0\n") != std::string::npos);
    CHECK(r.said.find("refused by the ONNX checker") == std::string::npos);
    auto const report = text_of_file(out / "demo/report.html");
    CHECK((report.find("microbatch") != std::string::npos) == runs);
  }
}

TEST_CASE("cleave demo: names the operator that an engine lacks and does the rest") {
  scratch_folder const out;
  auto const r = run_tool({"demo", model_file("moe").string(), "--out", out / "demo"});
  CHECK(r.exit == 0);
  CHECK(r.said.find("not by OpenCV: does not support operator TopK") != std::string::npos);
  CHECK(std::filesystem::exists(out / "demo/stage_3.onnx"));
  CHECK(std::filesystem::exists(out / "demo/report.html"));
}

TEST_CASE("cleave demo: without a model, makes two of true size, whose stages give their results") {
  scratch_folder const out;
  auto const r = run_tool({"demo", "-k", "2", "-m", "1", "--out", out / "demo"});
  CAPTURE(r.said);
  CHECK(r.exit == 0);
  CHECK(r.to_stderr.empty());
  std::size_t runs = 0;
  for (auto at = r.said.find("largest difference                 0\n"); at != r.said.npos;
       at = r.said.find("largest difference                 0\n", at + 1))
    ++runs;
  CHECK(runs == 2);
  CHECK(r.said.find("predicted") < r.said.find("measured"));
  // torchvision's ResNet-50 has 25,557,032 parameters. Of the 53,120 in its batch normalisations 26,560 are
  // left, the biases. DeiT-Tiny has 5,717,416, of which 9,600 in its norms are folded into others.
  std::map<std::string, std::int64_t> const expected{{"resnet50", 25'530'472}, {"vit_tiny", 5'707'816}};
  for (auto const& [name, parameters] : expected) {
    std::filesystem::path const folder = out / "demo/" + name;
    CHECK(parameters_of(folder / (name + ".onnx")) == parameters);
    CHECK(std::filesystem::exists(folder / "stage_1.onnx"));
    auto const page = text_of_file(folder / "report.html");
    CHECK(page.find("<th scope=\"col\">Predicted cost</th>") != std::string::npos);
    CHECK(page.find("<th scope=\"col\">Measured time</th>") != std::string::npos);
    std::size_t measured = 0;
    for (auto const& e : read_markup(page))
      measured += e.tag == "data" && e.is("measured-ns") && e.number("value") > 0;
    CHECK(measured == 2);
  }
}

TEST_CASE("cleave demo: the models that it makes are the same every time, and replace only their like") {
  scratch_folder const out;
  std::vector<std::string> const call{"demo", "vit_tiny", "-k", "2", "-m", "1", "--out", out / "demo"};
  std::filesystem::path const model = out / "demo/vit_tiny.onnx";
  REQUIRE(run_tool(call).exit == 0);
  auto const first = text_of_file(model);
  CHECK(run_tool(call).exit == 0);
  CHECK(text_of_file(model) == first);

  std::ofstream(model) << "mine";
  auto const refused = run_tool(call);
  CHECK(refused.exit == 3);
  CHECK(refused.to_stderr.find("vit_tiny.onnx: exists, and this option did not write it") !=
        std::string::npos);
  CHECK(text_of_file(model) == "mine");
}
