// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/tool.hpp"

using namespace cleave::testing;

namespace {

bool has(std::string const& text, std::string const& part) { return text.find(part) != text.npos; }

/// A training graph of onnxruntime (tests/support/record_training_graphs.py).
std::string training_graph(std::string const& name) {
  return (std::filesystem::path(CLEAVE_TEST_DATA) / "backward" / "training_graphs" / (name + ".onnx"))
      .string();
}

nlohmann::json cuts_of(std::vector<std::string> words) {
  words.insert(words.begin(), "recompute");
  words.push_back("--json");
  auto const r = run_tool(words);
  CAPTURE(r.to_stderr);
  REQUIRE(r.exit == 0);
  return nlohmann::json::parse(r.said);
}

}  // namespace

TEST_CASE("cleave recompute: a table of bytes and time for a model without backward pass") {
  auto const r = run_tool({"recompute", model_file("gpt2"), "--in-flight", "4"});
  CHECK(r.exit == 0);
  for (std::string const said :
       {"backward pass appended; 4 microbatches in flight", "all saved", "50 %", "fewest"})
    CHECK_MESSAGE(has(r.said, said), said);
  auto const j = cuts_of({model_file("gpt2").string(), "--in-flight", "4"});
  CHECK(j["training"] == false);
  std::size_t before = j["bytes"];
  double cost = 0;
  for (auto const& cut : j["cuts"]) {
    CHECK(cut["bytes"] == 4 * cut["saved_bytes"].get<std::size_t>());
    CHECK(cut["bytes"] < before);
    CHECK(cut["bytes"] <= cut["limit"]);
    CHECK(cut["seconds"] >= cost);
    CHECK(cut["bound"] <= cut["seconds"]);
    before = cut["bytes"], cost = cut["seconds"];
  }
  CHECK(cost < j["step"]);
}

TEST_CASE("cleave recompute: cuts training graphs of onnxruntime within a limit") {
  for (std::string const name : {"mlp_stage", "conv_net", "batch_norm_net", "transformer_stage", "gpt2"}) {
    CAPTURE(name);
    std::vector<std::string> words{training_graph(name)};
    if (name == "mlp_stage") words.insert(words.end(), {"--dim", "batch=16"});
    auto const all = cuts_of(words);
    CHECK(all["training"] == true);
    REQUIRE(all["bytes"] > 0);
    auto limited = words;
    limited.insert(limited.end(), {"--limit", "60%"});
    auto const j = cuts_of(limited);
    REQUIRE(j["cuts"].size() == 1);
    CHECK(j["cuts"][0]["bytes"].get<double>() <= 0.6 * all["bytes"].get<double>());
    CHECK(j["again"].size() == j["cuts"][0]["operations_again"]);
    CHECK(j["again"].size() > 0);
    CHECK(j["saved"].size() > 0);
  }
}

TEST_CASE("cleave recompute --weights-in-flight: says what waits for the weight pass") {
  std::vector<std::string> const words{
      training_graph("transformer_stage"), "--weights-in-flight", "2", "--input", "hidden", "--limit", "60%"};
  auto const j = cuts_of(words);
  CHECK(j["weights_in_flight"] == 2);
  CHECK(j["kept"].size() > 0);
  auto const& cut = j["cuts"][0];
  CHECK(cut["bytes"] == cut["saved_bytes"].get<std::size_t>() + 2 * cut["kept_bytes"].get<std::size_t>());
  CHECK(has(run_tool({"recompute", training_graph("mlp"), "--input", "nothing"}).to_stderr,
            "--input: the graph returns no gradient of 'nothing'"));
}

TEST_CASE("cleave recompute --once: operators that may not run again") {
  auto const limit = std::vector<std::string>{training_graph("conv_net"), "--limit", "75%"};
  auto with = limit;
  with.insert(with.end(), {"--once", "Conv"});
  auto const any = cuts_of(limit);
  auto const r =
      run_tool({"recompute", training_graph("conv_net"), "--limit", "1%", "--once", "Conv,Relu,Gemm"});
  CHECK(r.exit == 1);
  CHECK(has(r.to_stderr, "bytes are needed, even if every operation runs again that may"));
  CHECK(any["cuts"][0]["seconds"] <= cuts_of(with)["cuts"][0]["seconds"]);
}
