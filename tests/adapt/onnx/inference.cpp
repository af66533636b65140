// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/detail/inference.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

std::string spelt(cleave::onnx::types const& types, std::string const& value) {
  auto const* type = types.priced(value);
  return type == nullptr ? "unknown" : cleave::onnx::spelling(*type);
}

/// The type of y, which these nodes make from x, float32 2x3x4, d, float32 nx3, and t, int64 2. `opset` is
/// the version of the operators.
std::string made(std::string const& nodes, std::int64_t opset = 15) {
  auto m = onnx_text("f (float[2, 3, 4] x, float[n, 3] d, int64[2] t, bool c) => (float[] z) { " + nodes +
                     " z = Relu(x) }");
  m.mutable_opset_import(0)->set_version(opset);
  return spelt(cleave::onnx::types(m), "y");
}

std::string list(std::string const& name, std::string const& values) {
  return name + " = Constant<value_ints = [" + values + "]>() ";
}

}  // namespace

TEST_CASE("onnx_shape_rules: a reshape keeps known, copied and open dimensions apart") {
  CHECK(made(list("s", "0, -1") + "y = Reshape(x, s)") == "float32 2x12");
  CHECK(made(list("s", "4, -1, 3") + "y = Reshape(x, s)") == "float32 4x2x3");
  CHECK(made(list("s", "0, -1") + "y = Reshape<allowzero = 1>(x, s)") == "float32 0x?");
  CHECK(made(list("s", "7, -1") + "y = Reshape(x, s)") == "float32 7x?");
  CHECK(made(list("s", "3, -1") + "y = Reshape(d, s)") == "float32 3xn");  // n*3 / 3
  CHECK(made(list("s", "-1, 1, 3") + "y = Reshape(d, s)") == "float32 nx1x3");
  CHECK(made("s = Shape(d) " + list("o", "1") + "k = Concat<axis = 0>(o, s) y = Reshape(d, k)") ==
        "float32 1xnx3");
  CHECK(made("y = Reshape(x, t)") == "float32 ?x?");
  CHECK(made(list("a", "6") + list("b", "0") + list("e", "1") +
             "u = Slice(t, b, e) k = Concat<axis = 0>(a, u) y = Reshape(x, k)") == "float32 6x4");
}

TEST_CASE("onnx_shape_rules: operands with numbers determine shapes") {
  CHECK(made(list("s", "5, 2, 3, 4") + "y = Expand(x, s)") == "float32 5x2x3x4");
  CHECK(made("y = Expand(x, t)") == "float32 2x3x4");
  CHECK(made(list("s", "1, 2, 3") + "y = Tile(x, s)") == "float32 2x6x12");
  CHECK(made("y = ConstantOfShape(t)") == "float32 ?x?");
  CHECK(made(list("p", "0, 1, 0, 0, 2, -1") + "y = Pad(x, p)") == "float32 2x6x3");
  CHECK(made("u = Concat<axis = 0>(t, t, t) y = Pad(x, u)") == "float32 ?x?x?");
  CHECK(made(list("a", "1") + list("b", "9") + list("k", "2") + "y = Slice(x, a, b, k)") == "float32 2x3x3");
  CHECK(made(list("a", "0") + list("b", "9223372036854775807") + list("k", "0") + "y = Slice(d, a, b, k)") ==
        "float32 nx3");
  CHECK(made(list("a", "0") + list("b", "5") + list("k", "0") + "y = Slice(d, a, b, k)") == "float32 <=5x3");
  CHECK(made(list("k", "2") + "y, i = TopK(x, k)") == "float32 2x3x2");
  CHECK(made(list("k", "2") + "i, y = TopK<axis = 0>(x, k)") == "int64 2x3x4");
  CHECK(made(list("k", "1, 2") + "i, y = Split<axis = 1>(x, k)") == "float32 2x2x4");
  CHECK(made("i, y = Split<axis = 1>(d)") == "float32 nx1");
  CHECK(made("i, y = Split(d)") == "float32 ?x3");
  CHECK(made("s = Constant<value_floats = [1.0, 1.5, 2.0]>() r = Constant<value_floats = [0.0]>() y = "
             "Resize(x, , s)") == "float32 2x4x8");
  CHECK(made(list("s", "2, 9, 9") + "y = Resize(x, , , s)") == "float32 2x9x9");
  CHECK(made("k = Constant<value_int = 7>() v = Constant<value_floats = [0.0, 1.0]>() y = OneHot(t, k, v)") ==
        "float32 2x7");
  CHECK(made("a = Constant<value_int = 3>() b = Constant<value_int = 20>() e = Constant<value_int = 4>() y = "
             "Range(a, b, e)") == "int64 5");
  CHECK(made("a = Constant<value_float = 0.0>() b = Constant<value_float = 1.0>() e = Constant<value_float = "
             "0.3>() y = Range(a, b, e)") == "float32 4");
  CHECK(made("y = Einsum<equation = \"abc, adc -> bd\">(x, x)") == "float32 3x3");
  CHECK(made("y = Einsum<equation = \"...c -> ...\">(x)") == "float32 of unknown rank");
}

TEST_CASE("onnx_shape_rules: reads the forms of later and earlier versions") {
  CHECK(made(list("k", "1") + "y = ReduceMean(x, k)", 18) == "float32 2x1x4");
  CHECK(made("y = ReduceMean(x)", 18) == "float32 1x1x1");
  CHECK(made("y = ReduceMean<noop_with_empty_axes = 1>(x)", 18) == "float32 2x3x4");
  CHECK(made("y = ReduceMean<keepdims = 0>(x, t)", 18) == "float32 ?");
  CHECK(made("i, y = Split<axis = 2, num_outputs = 2>(x)", 18) == "float32 2x3x2");
  CHECK(made("i, j, y = Split<axis = 2, num_outputs = 3>(x)", 18) == "float32 2x3x0");
  CHECK(made(list("p", "1, 1") + list("k", "1") + "y = Pad(x, p, , k)", 18) == "float32 2x5x4");
  CHECK(made(list("s", "9") + "y = Resize<axes = [1]>(x, , , s)", 18) == "float32 2x9x4");
  CHECK(made(list("s", "9, 9, 9") + "y = Resize<keep_aspect_ratio_policy = \"not_larger\">(x, , , s)", 18) ==
        "float32 ?x?x?");
  CHECK(made("y = Gelu(d)", 20) == "float32 nx3");
  CHECK(made("y = RMSNormalization(x, x)", 23) == "float32 2x3x4");
  // libonnx would read it without the dilations.
  CHECK(made(list("a", "0") +
                 "v = Unsqueeze(x, a) y = AveragePool<kernel_shape = [2, 2], dilations = [2, 2]>(v)",
             19) == "unknown");
  CHECK(made("y = Unsqueeze<axes = [0, -1]>(x)", 11) == "float32 1x2x3x4x1");
  CHECK(made("y = Squeeze<axes = [1]>(x)", 11) == "float32 2x4");
  CHECK(made("y = Slice<starts = [1], ends = [3], axes = [2]>(x)", 9) == "float32 2x3x2");
  CHECK(made("y = Pad<pads = [0, 0, 1, 0, 0, 1]>(x)", 10) == "float32 2x3x6");
  CHECK(made("i, y = Split<axis = 2, split = [1, 3]>(x)", 11) == "float32 2x3x3");
  CHECK(made("i, y = TopK<k = 2>(x)", 9) == "int64 2x3x2");
  CHECK(made("y = Upsample<scales = [1.0, 2.0, 2.0]>(x)", 7) == "float32 2x6x8");
}

TEST_CASE("onnx_type_inference: extents that depend on data have upper bounds") {
  CHECK(made("y = NonZero(x)") == "int64 3x<=24");
  CHECK(made("i = NonZero(x) u = Transpose(i) y = Add(u, u)") == "int64 <=24x3");
  CHECK(made("k = Constant<value = bool[4] {1, 0, 1, 1}>() y = Compress<axis = 2>(x, k)") == "float32 2x3x3");
  CHECK(made("k = Greater(t, t) y = Compress<axis = 1>(x, k)") == "float32 2x<=2x4");
  CHECK(made("i = NonZero(x) s = Shape(i) k = Constant<value_ints = [1]>() n = Gather(s, k) m = Constant<"
             "value_ints = [5]>() e = Min(n, m) v, y = TopK<axis = 1>(i, e)") == "int64 3x<=5");
  CHECK(made("i = NonZero(x) j = NonZero(t) y = Concat<axis = 1>(j, j)") == "int64 1x<=4");
  auto const boxes = [](std::string const& most) {
    return made("m = Constant<value_int = " + most + ">() y = NonMaxSuppression(x, x, m)");
  };
  CHECK(boxes("2") == "int64 <=12x3");  // 2 batches, 3 classes
  CHECK(boxes("100") == "int64 <=24x3");
  CHECK(made("y = NonMaxSuppression(x, x)") == "int64 0x3");
  auto const m = onnx_text("f (float[2, 3] x) => (int64[a, b] y) { i = NonZero(x) y = Add(i, i) }");
  cleave::onnx::types const types(m);
  CHECK(types.bytes("i") == 2 * 6 * 8);
  CHECK(cleave::onnx::spelling(*types.declaration("i")) == "int64 2x?");  // other sizes may come
  CHECK(cleave::onnx::spelling(*types.declaration("y")) == "int64 2xb");
  auto const costs = cleave::onnx::costs_of(types);
  CHECK(costs.unknown == 0);
  CHECK(costs.bounded == 2);
  CHECK(costs.of[1].flops == 12);
}

TEST_CASE("onnx_type_inference: a bound that overflows is no size") {
  auto const m = onnx_text("f (float[1000000000, 1000000000] x) => (int64[a, b] y) { y = NonZero(x) }");
  CHECK(cleave::onnx::types(m).bytes("y") == 0);
}

TEST_CASE("onnx_type_inference: an If has the shape of the branch taken, or what both share") {
  auto const branches = [](std::string const& condition, std::string const& one, std::string const& other) {
    return made(condition + " y = If(k) <then_branch = g () => (float[] p) { " + one +
                " }, else_branch = h () => (float[] q) { " + other + " }>");
  };
  std::string const whole = "p = Relu(x)", part = "i = Constant<value_int = 0>() q = Gather(x, i)",
                    row = "i = Constant<value_ints = [0]>() q = Gather(x, i)";
  CHECK(branches("k = Constant<value = bool {1}>()", whole, part) == "float32 2x3x4");
  CHECK(branches("k = Constant<value = bool {0}>()", whole, part) == "float32 3x4");
  CHECK(branches("s = Size(x) n = Constant<value_int = 24>() k = Equal(s, n)", whole, part) ==
        "float32 2x3x4");
  CHECK(branches("k = Identity(c)", whole, part) == "float32 of unknown rank");
  CHECK(branches("k = Identity(c)", whole, row) == "float32 <=2x3x4");
  CHECK(branches("k = Identity(c)", whole, "q = Tanh(x)") == "float32 2x3x4");
}

TEST_CASE("onnx_type_inference: a Loop keeps the shapes that hold in every iteration") {
  auto const loop = [](std::string const& body, std::string const& trips = "5", std::string const& go = "") {
    return made("k = Constant<value_int = " + trips + ">() y, w = Loop(k, " + go +
                ", x) <body = b (int64 i, bool e, float[] v) => (bool g, float[] u, float[] s) { " + body +
                " }>");
  };
  auto const scans = [](std::string const& body, std::string const& trips = "5", std::string const& go = "") {
    return made("k = Constant<value_int = " + trips + ">() w, y = Loop(k, " + go +
                ", x) <body = b (int64 i, bool e, float[] v) => (bool g, float[] u, float[] s) { " + body +
                " }>");
  };
  std::string const same = "g = Identity(e) u = Relu(v) s = Tanh(v)";
  CHECK(loop(same) == "float32 2x3x4");
  CHECK(scans(same) == "float32 5x2x3x4");
  CHECK(scans(same, "5", "c") == "float32 <=5x2x3x4");  // may stop at once
  CHECK(scans("u = Relu(v) s = Tanh(v) m = ReduceMax<keepdims = 0>(v) z = Sub(m, m) g = Less(z, m)") ==
        "float32 <=5x2x3x4");
  std::string const grows = "g = Identity(e) u = Concat<axis = 0>(v, x) s = ReduceSum<keepdims = 0>(v)";
  CHECK(loop(grows) == "float32 ?x3x4");
  CHECK(scans(grows) == "float32 5");
  CHECK(loop("g = Identity(e) s = Relu(v) a = Constant<value_ints = [0]>() u = Unsqueeze(v, a)") ==
        "float32 of unknown rank");
  CHECK(loop("g = Identity(e) s = Relu(v) u = Transpose<perm = [1, 0, 2]>(v)") == "float32 ?x?x4");
  // A size that differs in each iteration is no size after the loop.
  CHECK(
      made(
          "k = Constant<value_int = 1>() a, w = Loop(k, , x) <body = b (int64 i, bool e, float[] v) => (bool "
          "g, float[] u, float[] s) { g = Identity(e) s = Relu(v) u = Concat<axis = 0>(v, x) }> p = Shape(a) "
          "q "
          "= Shape<start = 1>(w) m = Equal(p, q) r = Cast<to = 7>(m) y = ConstantOfShape(r)") ==
      "float32 <=1x1x1");
  CHECK(
      made(
          "k = Constant<value_int = 5>() o = Loop(k, , x) <body = b (int64 i, bool e, float[] v) => (bool g, "
          "float[] u) { g = Identity(e) u = Loop(k, , v) <body = n (int64 i2, bool e2, float[] v2) => (bool "
          "g2, "
          "float[] u2) { g2 = Identity(e2) u2 = Concat<axis = 1>(v2, x) }> }> y = Relu(o)") ==
      "float32 2x?x4");
}

TEST_CASE("onnx_type_inference: a function infers from the numbers of its call") {
  auto m = onnx_text(R"(f (float[2, 3, 4] x) => (float[] z) {
    s = Constant<value_ints = [6, 4]>()
    y = acme.shaped(x, s)
    z = Relu(y)
  })");
  import_domain(m, "acme");
  add_function(m, "acme", "shaped", {"a", "b"}).set_op_type("Reshape");
  CHECK(spelt(cleave::onnx::types(m), "z") == "float32 6x4");
}

TEST_CASE("onnx_type_inference: the file's declarations fill in, and do not override") {
  auto const m = onnx_text(
      "f (float[2, 3] x, int64[1] t) => (float[n] y, float[7, 9] z) "
      "{ y = Reshape(x, t)  z = Relu(x) }");
  cleave::onnx::types const types(m);
  CHECK(spelt(types, "y") == "float32 6");  // all elements in one dimension
  CHECK(spelt(types, "z") == "float32 2x3");
  CHECK(types.complaint() == "value 'z' is declared as float32 7x9, but its node makes float32 2x3");
  // A symbol that looks like a bound of this library is none.
  auto odd = onnx_text("f (float[n] x) => (float[n] y) { y = Relu(x) }");
  for (auto* v : {odd.mutable_graph()->mutable_input(0), odd.mutable_graph()->mutable_output(0)})
    v->mutable_type()->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_dim_param("<=5");
  CHECK(cleave::onnx::types(odd).bytes("y") == 0);
}

TEST_CASE("onnx_type_inference: takes time in proportion to the model") {
  // Each reshape depends on the shape that the one before has made.
  auto const seconds = [](int layers) {
    std::string nodes = "h0 = Relu(x) ";
    for (int i = 0; i < layers; ++i) {
      auto const k = std::to_string(i);
      nodes += "s" + k + " = Shape(h" + k + ") c" + k + " = Constant<value_ints = [-1]>() d" + k +
               " = Concat<axis = 0>(s" + k + ", c" + k + ") r" + k + " = Reshape(h" + k + ", d" + k + ") h" +
               std::to_string(i + 1) + " = Reshape(r" + k + ", s" + k + ") ";
    }
    auto const m = onnx_text("f (float[2, 3] x) => (float[2, 3] y) { " + nodes + " y = Relu(h" +
                             std::to_string(layers) + ") }");
    auto const before = std::chrono::steady_clock::now();
    cleave::onnx::types const types(m, {.inference = cleave::onnx::inference::same_process});
    CHECK(spelt(types, "r" + std::to_string(layers - 1)) == "float32 2x3x1");
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
  };
  double const small = seconds(100), large = seconds(3200);  // linear: 32, quadratic: 1,024
  CHECK(large < 250 * (small + 0.002));
}

TEST_CASE("onnx_type_inference: types that grow with each node are cut short") {
  auto const chain = [](std::string const& op, int nodes, bool reads_twice) {
    std::string text = "v0 = Constant<value = int64[1, 1] {0}>() ";
    for (int i = 0; i < nodes; ++i) {
      auto const from = "v" + std::to_string(i);
      text += "v" + std::to_string(i + 1) + " = " + op + "(" + from + (reads_twice ? ", " + from : "") + ") ";
    }
    return cleave::onnx::types(onnx_text("f (float[2] x) => (float[2] y) { " + text + " y = Relu(x) }"));
  };
  auto const doubled = chain("Gather", 60, true);  // a rank of 2^60
  CHECK(spelt(doubled, "v1") == "int64 1x1x1");
  CHECK(spelt(doubled, "v60") == "int64 of unknown rank");
  auto const nested = chain("Optional", 60, false);  // deeper than messages may nest
  CHECK(nested.complaint() == "");
  CHECK(spelt(nested, "v1") == "optional");
  CHECK(spelt(nested, "v60") == "unknown");
  CHECK(spelt(nested, "y") == "float32 2");
}

TEST_CASE("onnx_type_inference: malformed operands leave shapes open") {
  for (std::string const text :
       {"y = Reshape(x)", "y = Slice(x)", "y = Concat<axis = 9>(x)", "y = Gather<axis = 9>(x, t)",
        "y = Tile(x)", "y = TopK(x)", "y = OneHot(x)", "y = Split<axis = 5>(x)",
        "y = Transpose<perm = [5, 5, 5]>(x)", "y = Resize(x)", "y = Pad(x)", "y = Loop(x)", "y = If(c)",
        "y = Squeeze<axes = [7]>(x)", "y = Where(x)", "y = Einsum<equation = \"ab\">(x)",
        "y = NonMaxSuppression(x)", "y = Range(x)", "y = ConstantOfShape(c)"}) {
    CAPTURE(text);
    auto const m =
        onnx_text("f (float[2, 3, 4] x, int64[2] t, bool c) => (float[] z) { " + text + " z = Relu(y) }");
    cleave::onnx::types const types(m);
    CHECK(!cleave::onnx::elements(types.priced("y")));
    CHECK(cleave::onnx::costs_of(types).of.size() == 2);
  }
  // Nodes without results.
  for (std::string const text : {"y = Constant<value_int = 1>()", "y = Relu(x)", "y = Shape(x)", "y = If(c)",
                                 "y = Split(x)", "y = NonZero(x)", "y = Loop(t, c, x)"}) {
    CAPTURE(text);
    auto m = onnx_text("f (float[2, 3] x, int64 t, bool c) => (float[] z) { " + text + " z = Relu(x) }");
    m.mutable_graph()->mutable_node(0)->clear_output();
    CHECK(spelt(cleave::onnx::types(m), "z") == "float32 2x3");
  }
  // Sizes near the limits of 64 bits.
  CHECK(made(list("s", "9223372036854775807, 9223372036854775807") + "y = Reshape(x, s)") ==
        "float32 9223372036854775807x9223372036854775807");
  CHECK(made(list("s", "-9223372036854775808, -5") + "y = Reshape(x, s)") == "float32 ?x?");
  CHECK(made(list("s", "9223372036854775807, 1, 1") + "y = Tile(x, s)") == "float32 ?x3x4");
  CHECK(made(list("p", "9223372036854775807, 0, 0, 9223372036854775807, 0, 0") + "y = Pad(x, p)") ==
        "float32 ?x3x4");
  CHECK(made(list("p", "-9, 0, 0, 0, 0, 0") + "y = Pad(x, p)") == "float32 ?x3x4");
}
