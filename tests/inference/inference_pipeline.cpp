// SPDX-License-Identifier: MIT
#include "cleave/inference/inference_pipeline.hpp"

#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "cleave/inference/inference_stages.hpp"
#include "cleave/opencv/network.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using numbers = std::vector<float>;

/// Evaluates a graph of Neg, Abs, Add and Exp on floats, elementwise.
std::map<std::string, numbers> evaluated(::onnx::GraphProto const& g, std::map<std::string, numbers> values) {
  for (auto const& n : g.node()) {
    auto made = values.at(n.input(0));
    for (std::size_t i = 0; i < made.size(); ++i) {
      float const x = made[i];
      if (n.op_type() == "Neg")
        made[i] = -x;
      else if (n.op_type() == "Abs")
        made[i] = std::abs(x);
      else if (n.op_type() == "Exp")
        made[i] = x + 1;  // keeps numbers exact
      else if (n.op_type() == "Add")
        made[i] = x + values.at(n.input(1))[i];
      else
        throw std::runtime_error("no operator " + n.op_type());
    }
    values[n.output(0)] = std::move(made);
  }
  return values;
}

/// An engine for these graphs. `drops` of its last results' elements are left out.
class small_network {
 public:
  explicit small_network(onnx_stage const& s, std::size_t drops = 0) : stage_(s), drops_(drops) {
    if (!model_.ParseFromString(s.model)) throw std::runtime_error("no model");
    for (auto const& n : model_.graph().node())
      if (n.op_type() == "Tanh") throw std::runtime_error("no operator Tanh");
  }
  void infer(std::span<tensor_view const> in, std::span<tensor_view> out) {
    std::map<std::string, numbers> values;
    for (std::size_t i = 0; i < in.size(); ++i) {
      auto const* const x = static_cast<float const*>(in[i].data);
      values[stage_.inputs[i]] = numbers(x, x + in[i].elements().count);
    }
    values = evaluated(model_.graph(), std::move(values));
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto& made = values.at(stage_.outputs[i]);
      made.resize(made.size() - drops_);
      std::memcpy(out[i].data, made.data(), made.size() * sizeof(float));
      if (drops_ > 0) out[i].shape = {static_cast<std::int64_t>(made.size())};
    }
  }

 private:
  onnx_stage stage_;
  std::size_t drops_;
  ::onnx::ModelProto model_;
};
static_assert(inference_network<small_network>);

/// Writes a program of random operators on the inputs x and y, of four floats each.
::onnx::ModelProto random_model(rng& random, std::size_t nodes) {
  std::string text = "f (float[4] x, float[4] y) => (";
  std::vector<std::string> values{"x", "y"}, lines;
  auto const any = [&] { return values[random.one_in(2) ? values.size() - 1 : random.below(values.size())]; };
  for (std::size_t n = 0; n < nodes; ++n) {
    auto const name = "v" + std::to_string(n);
    char const* const one[] = {"Neg", "Abs", "Exp"};
    lines.push_back(name + " = " +
                    (random.one_in(2) ? "Add(" + any() + ", " + any() + ")"
                                      : std::string(one[random.below(3)]) + "(" + any() + ")"));
    values.push_back(name);
  }
  for (std::size_t n = 0; n < nodes; ++n)
    if (n + 1 == nodes || random.one_in(4))
      text += (text.ends_with('(') ? "float[4] v" : ", float[4] v") + std::to_string(n);
  text += ") {";
  for (auto const& l : lines) text += "\n  " + l;
  return onnx_text(text + "\n}");
}

struct random_batch {
  std::vector<numbers> memory;
  std::vector<tensor_view> views;

  random_batch(inference_stages const& s, std::uint32_t microbatches, rng& random) {
    for (std::uint32_t m = 0; m < microbatches; ++m)
      for (auto const& name : s.inputs()) {
        auto const layout = s.layout_of(name);
        auto& data = memory.emplace_back(static_cast<std::size_t>(layout.shape.count().value()));
        for (auto& x : data) x = static_cast<float>(random.below(100)) - 50;
        views.push_back({data.data(), layout.type, layout.shape});
      }
  }
};

numbers numbers_of(tensor_view const& v) {
  auto const* const x = static_cast<float const*>(v.data);
  return {x, x + v.elements().count};
}

}  // namespace

TEST_CASE("make_inference: random models in any number of stages give the results of the whole") {
  rng random(21);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    auto const model = random_model(random, 1 + random.below(12));
    auto const most = static_cast<std::uint32_t>(std::min(model.graph().node_size(), 4));
    auto const count = static_cast<std::uint32_t>(1 + random.below(most));
    std::optional<inference_stages> made;
    try {
      made.emplace(model, count);
    } catch (inference_error const& e) {  // nodes that nothing reads are left out
      CHECK(e.witness.what == inference_fault::kind::stages);
      continue;
    }
    auto const& stages = *made;
    auto const microbatches = static_cast<std::uint32_t>(1 + random.below(4));
    auto run = make_inference<small_network>(stages, microbatches);
    for (int turn = 0; turn < 2; ++turn) {
      random_batch const given(stages, microbatches, random);
      run.infer(given.views);
      for (std::uint32_t m = 0; m < microbatches; ++m) {
        std::map<std::string, numbers> values;
        auto const each = stages.inputs().size();
        for (std::size_t i = 0; i < each; ++i) values[stages.inputs()[i]] = given.memory[m * each + i];
        values = evaluated(model.graph(), std::move(values));
        for (auto const& name : stages.outputs()) {
          auto const result = run.result(microbatch_id{m}, name);
          REQUIRE(result);
          CHECK(numbers_of(*result) == values.at(name));
        }
      }
    }
  }
}

TEST_CASE("make_inference: stages in OpenCV equal the whole model bit for bit") {
  rng random(22);
  for (std::string const name : {"fpn", "many_outputs", "passthrough", "googlenet"}) {
    CAPTURE(name);
    auto const file = model_file(name);
    inference_stages const whole(read_model(file), 1), stages(read_model(file), 4);
    random_batch const given(whole, 2, random);
    auto one = make_inference<cleave::opencv::network>(whole, 2);
    auto four = make_inference<cleave::opencv::network>(stages, 2);
    one.infer(given.views);
    four.infer(given.views);
    std::size_t compared = 0;
    for (std::uint32_t m = 0; m < 2; ++m)
      for (auto const& output : whole.outputs()) {
        auto const expected = one.result(microbatch_id{m}, output),
                   made = four.result(microbatch_id{m}, output);
        REQUIRE(expected.has_value() == made.has_value());
        if (!made) continue;  // an input, or an initializer
        CHECK(std::memcmp(made->data, expected->data, made->elements().bytes()) == 0);
        ++compared;
      }
    CHECK(compared > 0);
  }
}

TEST_CASE("make_inference: stages may make less than their bound, if values may vary") {
  auto const model = onnx_text("f (float[4] x) => (float[4] z) {\n  y = Neg(x)\n  z = Neg(y)\n}");
  numbers x{1, 2, 3, 4};
  std::vector<tensor_view> const given{{x.data(), element_type::f32, {4}}};
  inference_stages const vary(model, 2, {.extents = shape_kind::dynamic});
  auto run = make_inference<small_network>(vary, 1, on_threads{}, std::size_t{1});
  run.infer(given);
  CHECK(numbers_of(*run.result(microbatch_id{0}, "z")) == numbers{1, 2});
  CHECK(run.result(microbatch_id{0}, "z")->shape == tensor_shape{2});

  inference_stages const fixed(model, 2);
  auto refused = make_inference<small_network>(fixed, 1, on_threads{}, std::size_t{1});
  CHECK_THROWS_WITH(
      refused.infer(given),
      doctest::Contains("inference: result 'y' is f32[3], but its layout says f32[4]; give the sizes"));
}

TEST_CASE("make_inference: errors name the stage, the value or the number") {
  auto const model = onnx_text("f (float[4] x) => (float[4] z) {\n  y = Neg(x)\n  z = Neg(y)\n}");
  CHECK_THROWS_WITH_AS(inference_stages(model, 3),
                       "inference: the model makes only 2 stages, not 3; ask for fewer", inference_error);
  auto const open = onnx_text("f (float[n] x) => (float[n] z) {\n  y = Neg(x)\n  z = Neg(y)\n}");
  CHECK_THROWS_WITH_AS(inference_stages(open, 1),
                       "inference: 'x' has no known shape; give the sizes of symbolic dimensions "
                       "(type_options::dims) or its shape "
                       "(type_options::shapes)",
                       inference_error);
  inference_options sized;
  sized.split.types.dims["n"] = 3;
  CHECK(inference_stages(open, 2, sized).layout_of("y").shape == tensor_shape{3});
  auto const words = onnx_text("f (uint32[4] x) => (uint32[4] z) {\n  z = Identity(x)\n}");
  CHECK_THROWS_WITH_AS(inference_stages(words, 1),
                       "inference: 'x' has elements of type UINT32, which stages cannot send",
                       inference_error);
  auto const long_shape =
      onnx_text("f (float[1,1,1,1,1,1,1,1,2] x) => (float[1,1,1,1,1,1,1,1,2] z) {\n  z = Neg(x)\n}");
  CHECK_THROWS_WITH_AS(inference_stages(long_shape, 1), "inference: 'x' has 9 axes; at most 8 are possible",
                       inference_error);

  inference_stages const stages(model, 2);
  auto run = make_inference<small_network>(stages, 3);
  CHECK_THROWS_WITH_AS(run.infer({}),
                       "inference: 0 inputs are given, but 3 are needed: those of each microbatch in turn",
                       inference_error);
  CHECK_THROWS_WITH_AS(run.result(microbatch_id{0}, "y"),
                       "inference: the model has no result 'y'; nearest: 'z'", inference_error);
  inference_stages const unknown(
      onnx_text("f (float[4] x) => (float[4] z) {\n  y = Neg(x)\n  z = Tanh(y)\n}"), 2);
  CHECK_THROWS_WITH_AS(make_inference<small_network>(unknown, 1),
                       "inference: stage 1 cannot be loaded: no operator Tanh", inference_error);
}
