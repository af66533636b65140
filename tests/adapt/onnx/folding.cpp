// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/detail/folding.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using numbers = std::vector<std::int64_t>;
constexpr auto unknown = onnx_integers::unknown;

/// The folded result of the last of these nodes. They may read x, float32 2x3x4, and d, float32 2xn.
std::string folded(std::string const& nodes, onnx_integers* whole = nullptr) {
  auto const m = onnx_text("f (float[2, 3, 4] x, float[2, n] d) => (float[] y) { " + nodes + " }");
  onnx_shape_arithmetic arithmetic;
  std::optional<onnx_integers> last;
  for (auto const& n : m.graph().node()) {
    last = arithmetic(n, [&](std::string const& name) -> ::onnx::TypeProto const* {
      for (auto const& v : m.graph().input())
        if (v.name() == name) return &v.type();
      return nullptr;
    });
    if (last) arithmetic.define(n.output(0), *last);
  }
  if (!last) return "nothing";
  if (whole != nullptr) *whole = *last;
  std::string text = last->dims.empty() ? "scalar" : "";
  for (auto const x : last->data)
    text += (text.empty() ? "" : " ") + (x == unknown ? "?" : std::to_string(x));
  return text;
}

std::string const abc =
    "a = Constant<value = int64[3] {5, 6, -7}>() b = Constant<value = int64[3] {2, 6, 2}>() one = "
    "Constant<value = int64 {1}>() ";

}  // namespace

TEST_CASE("onnx_shape_arithmetic: Shape returns the known dimensions and leaves the others unknown") {
  CHECK(folded("y = Shape(x)") == "2 3 4");
  CHECK(folded("y = Shape<start = 1>(x)") == "3 4");
  CHECK(folded("y = Shape<start = -2, end = -1>(x)") == "3");
  CHECK(folded("y = Shape(d)") == "2 ?");
  CHECK(folded("y = Shape(nobody)") == "nothing");
}

TEST_CASE("onnx_shape_arithmetic: computes each operator as ONNX defines it") {
  CHECK(folded(abc + "y = Gather(a, b)") == "nothing");  // 6 is out of range
  CHECK(folded(abc + "y = Gather(a, one)") == "scalar 6");
  CHECK(folded("s = Shape(x) i = Constant<value = int64[2] {-1, 0}>() y = Gather(s, i)") == "4 2");
  CHECK(folded(abc + "y = Concat<axis = 0>(a, b)") == "5 6 -7 2 6 2");
  CHECK(folded(abc + "y = Add(a, b)") == "7 12 -5");
  CHECK(folded(abc + "y = Sub(a, one)") == "4 5 -8");
  CHECK(folded(abc + "y = Mul(one, b)") == "2 6 2");
  CHECK(folded(abc + "y = Div(a, b)") == "2 1 -3");  // toward zero
  CHECK(folded(abc + "y = Div(b, a)") == "0 1 ?");   // unsupported: negative divisors
  CHECK(folded(abc + "e = Equal(a, b) y = Where(e, a, b)") == "2 6 2");
  CHECK(folded(abc + "e = Equal(a, b) y = Cast<to = 7>(e)") == "0 1 0");
  CHECK(folded(abc + "y = Cast<to = 1>(a)") == "nothing");  // to float32
  CHECK(folded(abc + "y = Squeeze(one)") == "scalar 1");
  CHECK(folded(abc + "y = Unsqueeze(one, one)") == "1");
  CHECK(folded("s = Constant<value = int64[2] {2, 2}>() y = ConstantOfShape<value = int64[1] {9}>(s)") ==
        "9 9 9 9");
  CHECK(folded("s = Constant<value = int64[2] {2, 2}>() y = ConstantOfShape(s)") ==
        "nothing");  // float32 zeros
  CHECK(folded(abc + "five = Constant<value = int64 {5}>() two = Constant<value = int64 {2}>() y = "
                     "Range(one, five, two)") == "1 3");
}

TEST_CASE("onnx_shape_arithmetic: clamps slices as ONNX does") {
  auto const slice = [](std::string const& start, std::string const& end) {
    return folded(abc + "s = Constant<value = int64[1] {" + start + "}>() e = Constant<value = int64[1] {" +
                  end + "}>() y = Slice(a, s, e)");
  };
  CHECK(slice("0", "2") == "5 6");
  CHECK(slice("-1", "9223372036854775807") == "-7");
  CHECK(slice("2", "1") == "");
  CHECK(slice("-9", "1") == "5");
}

TEST_CASE("onnx_shape_arithmetic: leaves run-time values, overflows and large results unknown") {
  CHECK(
      folded(
          abc +
          "s = Shape(d) i = Constant<value = int64[1] {1}>() n = Gather(s, i) y = Concat<axis = 0>(n, a)") ==
      "? 5 6 -7");
  CHECK(folded("s = Shape(d) i = Constant<value = int64 {1}>() n = Gather(s, i) y = Add(n, n)") ==
        "scalar ?");
  CHECK(folded("s = Shape(d) y = Equal(s, s)") == "1 ?");
  CHECK(folded("s = Shape(d) y = ConstantOfShape<value = int64[1] {9}>(s)") == "nothing");
  CHECK(folded("a = Constant<value = int64[1] {9223372036854775807}>() y = Add(a, a)") == "?");
  CHECK(folded("s = Constant<value = int64[3] {3000000000, 3000000000, 3000000000}>() y = "
               "ConstantOfShape<value = int64[1] {9}>(s)") == "nothing");
  CHECK(folded("a = Constant<value = int64 {0}>() b = Constant<value = int64 {9000000000}>() c = "
               "Constant<value = int64 {1}>() y = Range(a, b, c)") == "nothing");
}

TEST_CASE("onnx::types: infers a shape computed by Equal, Where and ConstantOfShape, and keeps the nodes") {
  auto const m = onnx_text(R"(f (float[1, 8] x, float[2, 8] z) => (float[] y) {
    minus = Constant<value = int64[2] {-1, 8}>()
    rank = Constant<value = int64[1] {2}>()
    ones = ConstantOfShape<value = int64[1] {1}>(rank)
    none = Constant<value = int64[2] {-1, -1}>()
    open = Equal(minus, none)
    s = Where(open, ones, minus)
    e = Expand(x, s)
    y = Add(e, z)
  })");
  cleave::onnx::types const types(m);
  CHECK(cleave::onnx::spelling(*types.declaration("e")) == "float32 1x8");
  CHECK(cleave::onnx::spelling(*types.declaration("y")) == "float32 2x8");
  for (int i = 0; i < m.graph().node_size(); ++i)
    CHECK(types.priced_model().graph().node(i).SerializeAsString() == m.graph().node(i).SerializeAsString());
}

TEST_CASE("onnx::costs_of: knows all costs of every model with fixed inputs") {
  for (auto const& file : model_files(giants::left_out)) {
    auto const name = model_name(file);
    CAPTURE(name);
    bool const is_dynamic = name == "bert_dynamic";
    CHECK((cleave::onnx::costs_of(cleave::onnx::types(read_model(file))).unknown == 0) == !is_dynamic);
  }
  auto const priced = cleave::onnx::costs_of(
      cleave::onnx::types(model("bert_dynamic"), {.dims = {{"batch", 2}, {"sequence", 8}}}));
  CHECK(priced.unknown < 10);
}
