// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/stages.hpp"

#include <doctest/doctest.h>
#include <onnx/checker.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cleave/adapt/onnx/check.hpp"
#include "support/cases.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_cut.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using strings = std::vector<std::string>;

std::vector<::onnx::ModelProto> cut(::onnx::ModelProto const& m, std::uint32_t k,
                                    cleave::onnx::types const& types) {
  cleave::onnx::graph const g(m);
  return cleave::onnx::stages(split(g, equal_slices(g, k)), types);
}
std::vector<::onnx::ModelProto> cut(::onnx::ModelProto const& m, std::uint32_t k) {
  return cut(m, k, cleave::onnx::types(m));
}

template <class Named>
strings names(Named const& list) {
  strings all;
  for (auto const& x : list) all.push_back(x.name());
  return all;
}

bool has(strings const& list, std::string const& name) { return std::ranges::find(list, name) != list.end(); }

/// The bytes of a node without node names, which stages may drop.
std::string unnamed(::onnx::NodeProto n) {
  std::vector<::onnx::NodeProto*> open{&n};
  while (!open.empty()) {
    auto& at = *open.back();
    open.pop_back();
    at.clear_name();
    for (auto& a : *at.mutable_attribute())
      if (a.has_g())
        for (auto& inner : *a.mutable_g()->mutable_node()) open.push_back(&inner);
  }
  return n.SerializeAsString();
}

/// The reason why ONNX's checker rejects `m`, or an empty text. Ignores its complaint about a boundary value
/// of unknown rank.
std::string refusal(::onnx::ModelProto const& m) {
  try {
    ::onnx::checker::check_model(m);
  } catch (std::exception const& e) {
    std::string const why = e.what();
    if (why.find("Field 'shape'") == std::string::npos) return why;
  }
  return {};
}

void check_interface(::onnx::ModelProto const& stage, cleave::onnx::staged const& stages, stage_id i) {
  auto const& g = stages.graph();
  auto const here = stages[i];
  cleave::onnx::graph const read(stage);
  auto const expected = [&](std::vector<cleave::onnx::graph::value> const& values) {
    strings all;
    for (auto const v : values) all.emplace_back(g.name_of(v));
    return all;
  };
  auto const found = [&](auto const& values) {
    strings all;
    for (auto const v : values) all.emplace_back(read.name_of(v));
    return all;
  };
  CHECK(found(read.inputs()) == expected(here.inputs));
  CHECK(found(read.outputs()) == expected(here.outputs));
  CHECK(found(read.state()) == expected(here.state));
  REQUIRE(stage.graph().node_size() == static_cast<int>(here.nodes.size()));
  for (std::size_t n = 0; n < here.nodes.size(); ++n)
    if (unnamed(stage.graph().node(static_cast<int>(n))) != unnamed(g.proto(here.nodes[n])))
      FAIL("another node");
}

}  // namespace

TEST_CASE("onnx::stages: every stage of every model matches its plan, and is valid if the whole model is") {
  std::size_t number = 0;
  for (auto const& file : some_model_files("lstm_30k")) {
    bool const odd = ++number % 2 != 0;
    auto const name = model_name(file);
    CAPTURE(name);
    bool const giant = file.extension() == ".gz";
    auto const m = read_model(file);
    cleave::onnx::types const types(m);
    cleave::onnx::graph const g(m);
    auto const accepted = refusal(m).empty();
    for (std::uint32_t const k : {2u, 3u, 4u, 8u}) {
      CAPTURE(k);
      if (giant && k != 4) continue;
      if (!giant && (k == 3 || k == 8) != odd && !all_cases()) continue;
      auto const stages = split(g, equal_slices(g, k));
      auto const models = cleave::onnx::stages(stages, types);
      CHECK(models.size() == std::min(k, nodes_to_place(g)));
      std::map<std::string, std::string> node_names;  // and the result of each node
      for (std::size_t i = 0; i < models.size(); ++i) {
        CAPTURE(i);
        auto const fault = find_onnx_fault(models[i]);
        CHECK_MESSAGE(!fault, (fault ? fault->message : ""));
        check_interface(models[i], stages, stages.plan().order[i]);
        if (accepted && !giant) CHECK(refusal(models[i]) == "");
        std::set<std::string> here;
        std::size_t doubled = 0;
        for (auto const& n : models[i].graph().node()) {
          if (n.name().empty()) continue;
          auto const first = node_names.emplace(n.name(), n.output(0)).first;  // of a copy: the same node
          doubled += !here.insert(n.name()).second || first->second != n.output(0);
        }
        CHECK(doubled == 0);
      }
    }
  }
}

TEST_CASE(
    "onnx::stages: constants become initializers of each stage that reads them, and Identity stays a node") {
  auto m = onnx_text(R"(f (float[2] x) => (float[2] y) {
    one = Constant<value = float[1] {1.0}>()
    again = Identity(one)
    a = Add(x, one)
    b = Add(a, again)
    y = Add(b, one)
  })");
  auto& number = *m.mutable_graph()->mutable_node(0);
  number.clear_attribute();
  auto& a = *number.add_attribute();
  a.set_name("value_float");
  a.set_type(::onnx::AttributeProto::FLOAT);
  a.set_f(1.5f);
  auto const stages = cut(m, 3);
  REQUIRE(stages.size() == 3);
  CHECK(names(stages[0].graph().initializer()) == strings{"one"});
  CHECK(names(stages[1].graph().initializer()) == strings{"one"});
  CHECK(names(stages[2].graph().initializer()) == strings{"one"});
  CHECK(stages[1].graph().initializer(0).float_data(0) == 1.5f);
  for (auto const& s : stages) CHECK(names(s.graph().input()).size() == 1);
  CHECK(stages[0].graph().node_size() == 1);
  CHECK(stages[2].graph().node_size() == 1);
  REQUIRE(stages[1].graph().node_size() ==
          2);  // not a second initializer, by which engines multiply otherwise
  CHECK(stages[1].graph().node(0).op_type() == "Identity");
}

TEST_CASE("onnx::stages: a default that the caller may override is an input of each stage that reads it") {
  for (auto const& name :
       {std::string("initializers_as_inputs"), std::string("initializers_as_inputs_ir3")}) {
    CAPTURE(name);
    auto const m = model(name);
    for (auto const& stage : cut(m, 4))
      for (auto const& t : stage.graph().initializer()) CHECK(has(names(stage.graph().input()), t.name()));
  }
}

TEST_CASE(
    "onnx::stages: a stage contains all opsets and the functions that it calls, directly or indirectly") {
  auto const m = model("functions");
  std::set<std::string> carried;
  for (auto const& stage : cut(m, 4)) {
    CHECK(stage.opset_import_size() == m.opset_import_size());
    auto const called = onnx_reached_functions(onnx_functions(m), stage.graph().node());
    CHECK(stage.functions_size() == static_cast<int>(called.size()));
    for (auto const& f : stage.functions()) carried.insert(f.name());
  }
  CHECK(carried.size() == static_cast<std::size_t>(m.functions_size()));
}

TEST_CASE("onnx::stages: preserves fields of later ONNX versions") {
  auto m = onnx_text("f (float[2] x) => (float[2] y) { h = Relu(x)  y = Tanh(h) }");
  auto& n = *m.mutable_graph()->mutable_node(1);
  n.GetReflection()->MutableUnknownFields(&n)->AddLengthDelimited(9, "metadata");
  auto const stages = cut(m, 2);
  auto const& kept = stages[1].graph().node(0);
  CHECK(kept.GetReflection()->GetUnknownFields(kept).field_count() == 1);
}

TEST_CASE("onnx::stages: only one of several nodes with the same name keeps it") {
  auto const m = model("duplicate_node_names");
  std::map<std::string, int> count;
  for (auto const& stage : cut(m, 4))
    for (auto const& n : stage.graph().node()) ++count[n.name()];
  CHECK(count.size() > 1);
  for (auto const& [name, times] : count)
    if (!name.empty()) CHECK(times == 1);
}

TEST_CASE("onnx::stages: external data stays a reference") {
  auto m = onnx_text("f (float[2] x) => (float[2] y) { h = Relu(x)  y = Add(h, w) }");
  auto const& w = add_external(*m.mutable_graph(), "w", 2, "weights.bin");
  cleave::onnx::graph const g(m);
  auto const stages = split(g, equal_slices(g, 2));
  auto const models = cleave::onnx::stages(stages, cleave::onnx::types(m));
  CHECK(models[0].graph().initializer_size() == 0);
  CHECK(models[1].graph().initializer(0).SerializeAsString() == w.SerializeAsString());
  CHECK(cleave::onnx::notes_of(stages).external == strings{"weights.bin"});
}

TEST_CASE(
    "onnx::stages: declares a value of unknown rank by its element type, and names one of unknown type") {
  auto m = onnx_text("f (float[2] x, int64[2] s) => (float[2] y) { h = Reshape(x, s)  y = Relu(h) }");
  auto const stages = cut(m, 2);
  REQUIRE(names(stages[0].graph().output()) == strings{"h"});
  CHECK(stages[0].graph().output(0).type().tensor_type().elem_type() == ::onnx::TensorProto::FLOAT);

  import_domain(m, "acme");
  m.mutable_graph()->mutable_node(0)->set_domain("acme");
  cleave::onnx::graph const g(m);
  cleave::onnx::types const types(m);
  auto const halves = split(g, equal_slices(g, 2));
  auto const fault = find_untyped_onnx_boundary(halves, types);
  REQUIRE(fault);
  CHECK(fault->names == strings{"h"});
  CHECK(fault->message.find("'h'") != std::string::npos);
  CHECK_THROWS_AS(cleave::onnx::stages(halves, types), cleave::onnx::error);
  CHECK(!find_untyped_onnx_boundary(split(g, equal_slices(g, 1)), types));
  auto const given = cut(m, 2, cleave::onnx::types(m, {.shapes = {{"h", {0, {2}}}}}));
  CHECK(cleave::onnx::spelling(given[1].graph().input(0).type()) == "float32 2");
}

TEST_CASE("onnx::stages: renames a value in a body that would hide an input of the stage") {
  auto const m = onnx_text(R"(f (float[2] x, bool c) => (float[2] y) {
    i = If(c) <
      then_branch = g1 () => (float[2] t) {
        z = Relu(x)
        t = If(c) <then_branch = g3 () => (float[2] p) { p = Neg(z) }, else_branch = g4 () => (float[2] q) { q = Tanh(z) }>
      },
      else_branch = g2 () => (float[2] z) { z = Relu(x) }>
    z = Tanh(x)
    y = Add(i, z)
  })");
  REQUIRE(refusal(m) == "");
  cleave::onnx::graph const g(m);
  auto const models =
      cleave::onnx::stages(split(g, {{part_id{1}, part_id{0}, part_id{1}}, 2}), cleave::onnx::types(m));
  REQUIRE(models.size() == 2);
  CHECK(has(names(models[1].graph().input()), "z"));
  CHECK(refusal(models[1]) == "");
  CHECK(!find_onnx_fault(models[1]));
  auto const& branch = models[1].graph().node(0).attribute(0).g();
  auto const& local = branch.node(0).output(0);
  CHECK(local != "z");
  CHECK(branch.node(1).attribute(0).g().node(0).input(0) == local);
  CHECK(models[1].graph().node(1).input(1) == "z");
  auto const& other = models[1].graph().node(0).attribute(1).g();
  CHECK(other.output(0).name() == other.node(0).output(0));
  CHECK(other.output(0).name() != "z");

  auto const in_order = cleave::onnx::stages(split(g, equal_slices(g, 1)), cleave::onnx::types(m));
  CHECK(in_order[0].graph().node(0).attribute(0).g().node(0).output(0) == "z");  // nothing to rename
}
