// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "cleave/adapt/onnx/split_onnx.hpp"
#include "support/cases.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_cut.hpp"
#include "support/opencv_model.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

void check_stages_against_whole(std::string const& name) {
  auto const m = model(name);
  auto const inputs = opencv_inputs(sidecar(name).at("runs").at(0));
  auto whole = inputs;
  opencv_model(m).run(whole);

  for (std::uint32_t const k : {8u, 4u, 3u, 2u}) {
    if (k != 3 && !cleave::testing::all_cases()) continue;
    CAPTURE(k);
    auto const cut = cleave::onnx::split(m, k);
    auto const models = cleave::onnx::stages(cut.stages, cut.types);
    CHECK(models.size() == std::min(k, nodes_to_place(*cut.graph)));
    auto staged = inputs;
    for (auto const& stage : models) {
      REQUIRE(stage.graph().node_size() > 0);
      opencv_model(stage).run(staged);
    }
    for (auto const& output : m.graph().output()) {
      CAPTURE(output.name());
      if (!whole.contains(output.name())) continue;  // an initializer, which no stage makes
      REQUIRE(staged.contains(output.name()));
      CHECK(same_bits(whole.at(output.name()), staged.at(output.name())));
    }
  }
}

}  // namespace

TEST_CASE("onnx::stages: stages that OpenCV runs equal the whole model bit for bit") {
  std::size_t run = 0;
  for (auto const& file : model_files(giants::included)) {
    auto const name = model_name(file);
    if (!sidecar(name).at("opencv").at("runs").get<bool>()) continue;
    CAPTURE(name);
    check_stages_against_whole(name);
    ++run;
  }
  CHECK(run == (all_models() ? 24 : 19));
}

TEST_CASE("onnx::stages: OpenCV detects a stage with a wrong weight") {
  auto const m = model("resnet18");
  auto const inputs = opencv_inputs(sidecar("resnet18").at("runs").at(0));
  auto whole = inputs, broken = inputs;
  opencv_model(m).run(whole);
  auto const cut = cleave::onnx::split(m, 4);
  auto models = cleave::onnx::stages(cut.stages, cut.types);
  auto& weight = *models.at(2).mutable_graph()->mutable_initializer(0)->mutable_raw_data();
  REQUIRE(!weight.empty());
  std::ranges::fill(weight, '\0');
  for (auto const& stage : models) opencv_model(stage).run(broken);
  CHECK(!same_bits(whole.at("output"), broken.at("output")));
}
