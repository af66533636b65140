// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/stages.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cleave/adapt/onnx/split_onnx.hpp"
#include "support/cases.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_cut.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using strings = std::vector<std::string>;

template <class Values>
strings value_names(cleave::onnx::graph const& g, Values const& values) {
  strings all;
  for (auto const v : values) all.emplace_back(g.name_of(v));
  return all;
}

}  // namespace

TEST_CASE("onnx::notes_of: reports a weight in two stages as a tie, also through Identity") {
  auto const m = onnx_text(R"(f (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float[2] own = {1, 2}> {
    v = Identity(w)
    a = Add(x, w)
    b = Add(a, v)
    y = Add(b, own)
  })");
  cleave::onnx::graph const g(m);
  auto const notes = cleave::onnx::notes_of(split(g, equal_slices(g, 3)));
  REQUIRE(notes.ties.size() == 1);
  CHECK(g.name_of(notes.ties[0].storage) == "w");
  CHECK(notes.ties[0].stages == std::vector{stage_id{0}, stage_id{1}});
}

TEST_CASE("onnx::notes_of: reports the shared matrix of gpt2 as its only tie") {
  auto const m = model("gpt2");
  cleave::onnx::graph const g(m);
  auto const notes = cleave::onnx::notes_of(split(g, equal_slices(g, 4)));
  REQUIRE(notes.ties.size() == 1);
  CHECK(g.name_of(notes.ties[0].storage) == "model.transformer.wte.weight");
  CHECK(notes.ties[0].stages == std::vector{stage_id{0}, stage_id{3}});
}

TEST_CASE("onnx::notes_of: reports outputs that no stage makes, dead nodes and values without a size") {
  auto const through = model("passthrough");
  cleave::onnx::graph const g(through);
  CHECK(value_names(g, cleave::onnx::notes_of(split(g, equal_slices(g, 4))).passed) == strings{"y", "k"});

  auto const dead = model("dead_code");
  cleave::onnx::graph const d(dead);
  auto const notes = cleave::onnx::notes_of(split(d, equal_slices(d, 4)));
  CHECK(notes.dead.size() + d.nodes().size() < d.file_nodes() + 1);
  CHECK(!notes.dead.empty());
  for (auto const n : notes.dead) CHECK(std::ranges::find(d.nodes(), n) == d.nodes().end());

  auto const m = onnx_text("f (float[2] x, int64[2] s) => (float[2] y) { h = Reshape(x, s)  y = Relu(h) }");
  auto const cut = cleave::onnx::split(m, 2);
  CHECK(value_names(*cut.graph, cleave::onnx::notes_of(cut.stages).unsized) == strings{"h"});
}

TEST_CASE("onnx::stages: makes no model of a stage whose results are unused") {
  auto const m = onnx_text("f (float[2] x) => (float[2] y) { d = Tanh(x)  e = Relu(d)  y = Relu(x) }");
  cleave::onnx::graph const g(m, {.live_only = false});
  auto const stages = split(g, equal_slices(g, 3));
  CHECK(cleave::onnx::live_stages(stages) ==
        std::vector{stage_id{0}, stage_id{2}});  // d is read by the dead stage
  CHECK(cleave::onnx::notes_of(stages).dead_stages == std::vector{stage_id{1}});
  auto const models = cleave::onnx::stages(stages, cleave::onnx::types(m));
  REQUIRE(models.size() == 2);
  CHECK(models[1].graph().output(0).name() == "y");
}

TEST_CASE("onnx::stages: orders the models as they run, whatever the numbers of their parts") {
  auto const m = onnx_text("f (float[2] x) => (float[2] y) { a = Tanh(x)  b = Relu(a)  y = Relu(b) }");
  cleave::onnx::graph const g(m);
  auto const models =
      cleave::onnx::stages(split(g, {{part_id{2}, part_id{0}, part_id{1}}, 3}), cleave::onnx::types(m));
  REQUIRE(models.size() == 3);
  strings made;
  for (auto const& stage : models) made.push_back(stage.graph().output(0).name());
  CHECK(made == strings{"a", "b", "y"});
}

TEST_CASE("onnx::split: cuts every model into min(k, nodes) nonempty stages, at or above the lower bound") {
  std::size_t number = 0;
  for (auto const& file : model_files(giants::left_out)) {
    bool const odd = ++number % 2 != 0;
    auto const name = model_name(file);
    CAPTURE(name);
    auto const m = read_model(file);
    for (std::uint32_t const k : {1u, 2u, 3u, 4u, 8u}) {
      if ((k == 3 || k == 8) != odd && !all_cases()) continue;
      CAPTURE(k);
      auto const cut = cleave::onnx::split(m, k);
      auto const nodes = nodes_to_place(*cut.graph);
      CHECK(cut.stages.size() == std::min(k, nodes));
      CHECK(cleave::onnx::live_stages(cut.stages).size() == cut.stages.size());
      std::size_t held = 0;
      for (auto const& stage : cut.stages.plan().stages) {
        CHECK(!stage.nodes.empty());
        for (auto const n : stage.nodes) held += cut.stages.snapshot().replicable[n] == 0;
      }
      for (auto const& t : cut.stages.plan().transfers)
        CHECK(!cut.graph->is_constant(cut.stages.snapshot().value[t.value]));
      CHECK(held == nodes);
      CHECK(cut.parts.bottleneck >= cut.parts.bound);
    }
  }
}

TEST_CASE("onnx::split: gives the same bytes for the same model") {
  auto const m = model("moe");
  auto const first = cleave::onnx::split(m, 4), second = cleave::onnx::split(m, 4);
  auto const a = cleave::onnx::stages(first.stages, first.types),
             b = cleave::onnx::stages(second.stages, second.types);
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i].SerializeAsString() == b[i].SerializeAsString());
}

TEST_CASE("onnx::split: distributes heavy nodes evenly over the stages") {
  auto const m = onnx_text(R"(f (float[512, 512] x, float[512, 512] w) => (float[512, 512] y) {
    a = MatMul(x, w)
    b = Relu(a)
    c = MatMul(b, w)
    d = Relu(c)
    e = MatMul(d, w)
    y = MatMul(e, w)
  })");
  auto const cut = cleave::onnx::split(m, 2);
  std::map<std::string, std::size_t> products;
  for (std::size_t i = 0; i < 2; ++i)
    for (auto const n : cut.stages[stage_id{static_cast<std::uint32_t>(i)}].nodes)
      if (cut.graph->proto(n).op_type() == "MatMul") ++products[std::to_string(i)];
  CHECK(products == std::map<std::string, std::size_t>{{"0", 2}, {"1", 2}});
}

TEST_CASE("onnx::split: rejects 0 parts and a memory limit that cannot be met") {
  auto const m = model("googlenet");
  CHECK_THROWS_AS(cleave::onnx::split(m, 0), error);
  CHECK_THROWS_AS(cleave::onnx::split(m, 4, {.balance = {.memory = std::size_t{1}}}), infeasible_error);
}
