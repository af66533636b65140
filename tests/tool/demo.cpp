// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <opencv2/dnn.hpp>
#include <string>

#include "support/model_corpus.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

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
