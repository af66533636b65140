// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/cost.hpp"

#include <doctest/doctest.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <string>

#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

cleave::onnx::work work_of_node(::onnx::ModelProto const& m, std::size_t n = 0) {
  return cleave::onnx::costs_of(cleave::onnx::types(m)).of.at(n);
}

/// A graph of one node over float32 values.
::onnx::ModelProto one_node(std::string const& inputs, std::string const& node) {
  return onnx_text("f (" + inputs + ") => (float[] z) { y = " + node + "  z = Relu(y) }");
}

void same(cleave::onnx::work const& w, double flops, double bytes) {
  CHECK(w.flops == flops);
  CHECK(w.bytes == bytes);
  CHECK(w.nodes == 1);
  CHECK(!w.unknown);
}

}  // namespace

TEST_CASE("onnx_operator_costs: lists only operators that ONNX defines") {
  auto const& registry = *::onnx::OpSchemaRegistry::Instance();
  for (auto const& line : onnx_operator_costs) {
    CAPTURE(line.name);
    bool known = false;
    for (int opset = 1; opset <= 17; ++opset)
      known |= registry.GetSchema(std::string(line.name), opset) != nullptr;
    CHECK(known);
  }
}

TEST_CASE(
    "onnx::costs_of: products, convolutions and recurrent cells cost two operations per multiplication") {
  same(work_of_node(one_node("float[3, 4] a, float[4, 5] b", "MatMul(a, b)")), 2 * 3 * 4 * 5,
       4 * (12 + 20 + 15));
  same(work_of_node(one_node("float[7, 3, 4] a, float[7, 4, 5] b", "MatMul(a, b)")), 7 * 2 * 3 * 4 * 5,
       4 * 7 * (12 + 20 + 15));
  same(work_of_node(one_node("float[4, 3] a, float[4, 5] b", "Gemm<transA = 1>(a, b)")), 2 * 3 * 4 * 5,
       4 * (12 + 20 + 15));
  same(work_of_node(one_node("float[1, 4, 8, 8] x, float[6, 2, 3, 3] w",
                             "Conv<group = 2, pads = [1, 1, 1, 1]>(x, w)")),
       2.0 * 6 * 64 * 2 * 9, 4 * (256 + 108 + 384));
  same(work_of_node(
           one_node("float[1, 4, 8, 8] x, float[4, 6, 2, 2] w", "ConvTranspose<strides = [2, 2]>(x, w)")),
       2.0 * 4 * 64 * 6 * 4, 4.0 * (256 + 96 + 6 * 256));
  auto const lstm = work_of_node(
      one_node("float[5, 2, 3] x, float[1, 28, 3] w, float[1, 28, 7] r", "LSTM<hidden_size = 7>(x, w, r)"));
  CHECK(lstm.flops == 2 * 5 * 2 * (28 * 3 + 28 * 7));
  auto const einsum =
      work_of_node(one_node("float[3, 4] a, float[4, 5] b", R"(Einsum<equation = "ij, jk -> ik">(a, b))"));
  CHECK(einsum.flops == 2 * 3 * 4 * 5);
  CHECK(!einsum.unknown);
}

TEST_CASE(
    "onnx::costs_of: elementwise operators cost their results, reductions their inputs, moves nothing") {
  same(work_of_node(one_node("float[3, 4] a, float[4] b", "Add(a, b)")), 12, 4 * (12 + 4 + 12));
  same(work_of_node(one_node("float[3, 4] a, float[4] b, float[1] c", "Sum(a, b, c)")), 24,
       4 * (12 + 4 + 1 + 12));
  same(work_of_node(one_node("float[3, 4] a", "ReduceMean<axes = [1]>(a)")), 12, 4 * (12 + 3));
  same(work_of_node(one_node("float[3, 4] a", "Softmax(a)")), 60, 4 * (12 + 12));
  same(work_of_node(one_node("float[1, 2, 8, 8] x", "MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x)")),
       2 * 16 * 4, 4 * (128 + 32));
  same(work_of_node(one_node("float[3, 4] a", "Transpose<perm = [1, 0]>(a)")), 0, 4 * (12 + 12));
  same(work_of_node(one_node("float[3, 4] a", "Flatten(a)")), 0, 0);
  same(work_of_node(one_node("float[1000, 4] table, int64[2] i", "Gather(table, i)")), 0, 8 * 2 + 2 * 4 * 8);
  same(work_of_node(one_node("float16[3, 4] a", "Relu(a)")), 12, 2 * (12 + 12));
}

TEST_CASE("onnx::costs_of: prices an unknown operator by its bytes and counts it by name") {
  auto m = one_node("float[3, 4] a", "Det(a)");
  m.mutable_graph()->mutable_node(1)->set_domain("acme");
  import_domain(m, "acme");
  auto const costs = cleave::onnx::costs_of(cleave::onnx::types(m));
  CHECK(costs.fallbacks == std::map<std::string, std::size_t>{{"Det", 1}, {"acme.Relu", 1}});
  CHECK(costs.of[0].flops == 0);
  CHECK(costs.of[0].bytes >= 4 * 12);
}

TEST_CASE("onnx::costs_of: counts a node of any operator that has no operands or no results") {
  for (auto const& line : cleave::detail::onnx_operator_costs) {
    if (line.rule == cleave::detail::onnx_rule::body) continue;
    auto m = onnx_text("f (float[2, 3] x) => (float[2, 3] y) { a = Relu(x)  b = Relu(x)  y = Relu(x) }");
    CAPTURE(line.name);
    for (int i = 0; i < 2; ++i) m.mutable_graph()->mutable_node(i)->set_op_type(std::string(line.name));
    m.mutable_graph()->mutable_node(0)->clear_output();
    m.mutable_graph()->mutable_node(1)->clear_input();
    cleave::onnx::types const types(m, {.inference = cleave::onnx::inference::without_libonnx});
    auto const costs = cleave::onnx::costs_of(types);
    CHECK(costs.of[0].nodes == 1);
    CHECK(costs.of[1].nodes == 1);
  }
}

TEST_CASE("onnx::costs_of: counts nodes of unknown cost, and prices only their known part") {
  auto const m = onnx_text(
      "f (float[2, 3] a, float[4, 5] b, float[n] c) => (float[x, y] z, float[n] d) { z = MatMul(a, b)  d = "
      "Relu(c) }");
  cleave::onnx::types const types(m);
  auto const costs = cleave::onnx::costs_of(types);
  CHECK(costs.unknown == 2);
  CHECK(costs.of[0].flops == 0);
  CHECK(costs.of[0].bytes == 4 * (6 + 20));
  cleave::onnx::costs const priced = cleave::onnx::costs_of(cleave::onnx::types(m, {.dims = {{"n", 10}}}));
  CHECK(priced.unknown == 1);
  CHECK(priced.of[1].flops == 10);
}

TEST_CASE("onnx::costs_of: adds the costs of bodies and functions at any depth") {
  auto const m = onnx_text(R"(f (float[8, 8] x, bool c) => (float[8, 8] y) {
    h = Relu(x)
    y = If(c) <
      then_branch = g1 () => (float[8, 8] t) {
        u = MatMul(h, x)
        t = If(c) <then_branch = g3 () => (float[8, 8] p) { p = MatMul(u, h) }, else_branch = g4 () => (float[8, 8] q) { q = Tanh(u) }>
      },
      else_branch = g2 () => (float[8, 8] e) { e = Relu(h) }>
  })");
  auto const w = work_of_node(m, 1);
  CHECK(w.flops == 2 * 1024 + 64 + 64);
  CHECK(w.nodes == 6);  // both Ifs and four nodes inside
  CHECK(!w.unknown);

  auto const functions = model("functions");
  auto const costs = cleave::onnx::costs_of(cleave::onnx::types(functions));
  CHECK(costs.fallbacks.empty());
  CHECK(costs.unknown == 0);
  double nodes = 0;
  for (auto const& each : costs.of) nodes += each.nodes;
  CHECK(nodes > functions.graph().node_size());
}

TEST_CASE("onnx::costs_of: a function takes its attributes from its call") {
  auto m = onnx_text("f (float[3, 4] a) => (float[1] z) { z = acme.mine <which = 1> (a) }");
  import_domain(m, "acme");
  auto& n = add_function(m, "acme", "mine", {"x"});
  n.set_op_type("Gemm");
  n.add_input("x");
  m.mutable_functions(0)->add_attribute("which");
  auto& a = *n.add_attribute();
  a.set_name("transA");
  a.set_ref_attr_name("which");
  a.set_type(::onnx::AttributeProto::INT);
  auto const costs = cleave::onnx::costs_of(cleave::onnx::types(m));
  CHECK(costs.of[0].flops == 2.0 * 4 * 4 * 3);  // 3 x 4, transposed, times 3 x 4
  CHECK(costs.fallbacks.empty());
}

TEST_CASE("onnx::rates: seconds are the slower of computing and moving, plus the start") {
  cleave::onnx::rates const rates{.flops = 10, .bytes = 100, .nodes = 2};
  CHECK(rates.seconds({.flops = 20, .bytes = 100, .nodes = 1}) == 2.5);
  CHECK(rates.seconds({.flops = 20, .bytes = 300, .nodes = 1}) == 3.5);
}

TEST_CASE("onnx::costs_of: knows all operators of all models and counts each node once") {
  for (auto const& file : some_model_files("fan_50k")) {
    auto const name = model_name(file);
    CAPTURE(name);
    cleave::onnx::types const types(read_model(file));
    auto const costs = cleave::onnx::costs_of(types);
    CHECK(costs.fallbacks.empty());
    auto const recorded = sidecar(name);
    CHECK(costs.of.size() == recorded.at("nodes").get<std::size_t>());
    double nodes = 0, least = 0;
    for (auto const& w : costs.of) {
      least = std::min({least, w.flops, w.bytes});
      nodes += w.nodes;
    }
    CHECK(least == 0);
    if (recorded.contains("nodes_with_subgraphs") && name != "functions")
      CHECK(nodes == recorded.at("nodes_with_subgraphs").get<double>());
  }
}
