// SPDX-License-Identifier: MIT
#include "cleave/formats/genai_pipeline.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/error_text.hpp"
#include "support/rng.hpp"

using namespace cleave;

namespace {

std::string refusal(std::string const& text) {
  return testing::error_text([&] { read_genai_pipeline(text); });
}

}  // namespace

TEST_CASE("read_genai_pipeline: reads the pipeline of a whole configuration or the list alone") {
  std::vector<genai_stage> const two{{"stage_0", "stage_0.onnx", {"input_ids"}, {"h"}},
                                     {"stage_1", "stage_1.onnx", {"h"}, {"logits"}}};
  auto const list = write_genai_pipeline(two);
  CHECK(read_genai_pipeline(list) == two);
  CHECK(
      read_genai_pipeline(R"({"search": {}, "model": {"type": "decoder-pipeline", "decoder": {"pipeline": )" +
                          list + "}}}") == two);
  auto const both = R"([{"a": {"filename": "a.onnx", "inputs": [], "outputs": ["x"], "run_on_prompt": true},
                        "b": {"filename": "b.onnx", "inputs": ["x"], "outputs": []}}])";
  CHECK(read_genai_pipeline(both).size() == 2);
}

TEST_CASE("read_genai_pipeline: random pipelines are read as they were written") {
  testing::rng random(7);
  for (int round = 0; round < 100; ++round) {
    std::vector<genai_stage> stages(1 + random.below(4));
    int names = 0;
    for (auto& stage : stages) {
      stage.name = "\"\u00e9\n" + std::to_string(names++);
      stage.file = "a/" + std::to_string(names++);
      for (auto* list : {&stage.inputs, &stage.outputs})
        for (auto n = random.below(4); n > 0; --n) list->push_back("v" + std::to_string(random.below(9)));
    }
    CHECK(read_genai_pipeline(write_genai_pipeline(stages)) == stages);
  }
}

TEST_CASE("read_genai_pipeline: names what is missing, with its place") {
  CHECK(refusal("{}").find("is missing the key 'model'") != std::string::npos);
  CHECK(refusal("[]").find("has no stages") != std::string::npos);
  CHECK(refusal(R"([{"a": {"inputs": [], "outputs": []}}])").find("$[0].a: is missing the key 'filename'") !=
        std::string::npos);
  CHECK(refusal(R"([{"a": {"filename": "a", "inputs": [1], "outputs": []}}])").find("$[0].a.inputs[0]") !=
        std::string::npos);
  auto const one = R"({"filename": "a", "inputs": [], "outputs": []})";
  auto const twice = "[{\"a\": " + std::string(one) + "}, {\"a\": " + one + "}]";
  CHECK(refusal(twice).find("two stages with the name 'a'") != std::string::npos);
}
