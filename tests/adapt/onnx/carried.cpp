// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/split_onnx.hpp"
#include "cleave/adapt/onnx/stages.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A decoder of layers that join the keys of earlier tokens with a new one. `past` and `present` are the
/// names before the number of the layer, `end` is what follows it.
::onnx::ModelProto decoder(std::size_t layers, std::string const& past, std::string const& present,
                           std::string const& end = "") {
  std::string inputs = "float[1,4] x", outputs, body, last = "x";
  for (std::size_t i = 0; i < layers; ++i) {
    auto const n = std::to_string(i);
    inputs += ", float[9,4] was" + n, outputs += "float[10,4] is" + n + ", ";
    body += "is" + n + " = Concat<axis = 0>(was" + n + ", " + last + ") mean" + n +
            " = ReduceMean<axes = [0], keepdims = 1>(is" + n + ") y" + n + " = Add(" + last + ", mean" + n +
            ") ";
    last = "y" + n;
  }
  auto m = onnx_text("decoder (" + inputs + ") => (" + outputs + "float[1,4] " + last + ") {" + body + "}");
  auto const rename = [&](std::string& name) {  // to names that the text cannot have
    if (name.starts_with("was")) name = past + name.substr(3) + end;
    if (name.starts_with("is")) name = present + name.substr(2) + end;
  };
  auto& g = *m.mutable_graph();
  for (auto* list : {g.mutable_input(), g.mutable_output()})
    for (auto& v : *list) rename(*v.mutable_name());
  for (auto& n : *g.mutable_node())
    for (auto* list : {n.mutable_input(), n.mutable_output()})
      for (auto& name : *list) rename(name);
  return m;
}

std::size_t pairs_of(cleave::onnx::graph const& g) {
  std::size_t count = 0;
  for (auto const v : g.inputs()) count += g.carried(v).size();
  return count;
}

}  // namespace

TEST_CASE("onnx::graph: pairs past inputs with present outputs by the names that exporters give") {
  struct names {
    std::string past, present, end;
  };
  for (auto const& [past, present, end] :
       {names{"past_key_values.", "present.", ".key"},
        names{"past_key_values.", "present_key_values.", ".decoder.value"}, names{"past_", "present_", ""},
        names{"past_key_self_", "present_key_self_", ""}}) {
    CAPTURE(past);
    auto const m = decoder(3, past, present, end);
    cleave::onnx::graph const g(m);
    CHECK(pairs_of(g) == 3);
    for (auto const v : g.inputs())
      for (auto const next : g.carried(v)) {
        auto const name = std::string(g.name_of(v)), to = std::string(g.name_of(next));
        CHECK(name == past + name.substr(past.size(), 1) + end);
        CHECK(to == present + name.substr(past.size(), 1) + end);
      }
    CHECK(pairs_of(cleave::onnx::graph(m, {.carried = false})) == 0);
  }
  for (auto const& [past, present] :
       {std::pair("old_", "present_"), std::pair("past_", "now_"), std::pair("past_k", "present_v")}) {
    auto const m = decoder(2, past, present);
    CHECK(pairs_of(cleave::onnx::graph(m)) == 0);
  }
}

TEST_CASE("onnx::notes_of: lists what each stage keeps for its next run") {
  auto const m = decoder(6, "past_key_values.", "present.", ".key");
  auto const cut = cleave::onnx::split(m, 3, {.balance = {.cost_per_byte = 0}});
  auto const kept = cleave::onnx::notes_of(cut.stages).carried;
  REQUIRE(kept.size() == 6);
  for (auto const& v : kept) {
    auto const stage = cut.stages[v.stage];
    CHECK(std::ranges::count(stage.inputs, v.past) == 1);
    CHECK(std::ranges::count(stage.outputs, v.present) == 1);
    auto const name = std::string(cut.graph->name_of(v.past));
    CHECK(cut.graph->name_of(v.present) == "present." + name.substr(16, 1) + ".key");
    for (auto const& t : cut.stages.plan().transfers) CHECK(cut.stages.snapshot().value[t.value] != v.past);
  }
}
