// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/types.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

std::string spelt(cleave::onnx::types const& types, std::string const& value) {
  auto const* type = types.declaration(value);
  return type == nullptr ? "unknown" : cleave::onnx::spelling(*type);
}

std::string priced(cleave::onnx::types const& types, std::string const& value) {
  auto const* type = types.priced(value);
  return type == nullptr ? "unknown" : cleave::onnx::spelling(*type);
}

/// Returns whether a type fits the recorded shape. Unknown ranks and dimensions of the type fit everything.
bool fits(::onnx::TypeProto const& type, nlohmann::json const& shape) {
  if (!type.has_tensor_type() || !type.tensor_type().has_shape()) return true;
  auto const& dims = type.tensor_type().shape().dim();
  if (static_cast<std::size_t>(dims.size()) != shape.size()) return false;
  for (int i = 0; i < dims.size(); ++i)
    if (dims[i].has_dim_value() &&
        dims[i].dim_value() != shape[static_cast<std::size_t>(i)].get<std::int64_t>())
      return false;
  return true;
}

auto const dynamic =
    onnx_text(R"(f (float[batch, 8] x, int64[1] n) => (float[batch, 4] y) <float[8, 4] w = {0}> {
  h = MatMul(x, w)
  r = Tanh(h)
  z = Reshape(r, n)
  y = Relu(h)
})");

}  // namespace

TEST_CASE("onnx::parse_shape: reads shapes as spelling() writes them, and rejects malformed text") {
  for (std::string const text : {"1x3x224x224", "?x8", "scalar", "0", "float16:2x?"}) {
    CAPTURE(text);
    auto const shape = cleave::onnx::parse_shape(text);
    ::onnx::TypeProto type;
    auto& t = *type.mutable_tensor_type();
    t.set_elem_type(shape.element);
    t.mutable_shape();
    for (auto const d : shape.dims) {
      auto& to = *t.mutable_shape()->add_dim();
      if (d >= 0) to.set_dim_value(d);
    }
    auto spelling = cleave::onnx::spelling(type);
    auto const shown = spelling.substr(spelling.rfind(' ') + 1);
    CHECK(shown == text.substr(text.find(':') + 1));
  }
  CHECK(cleave::onnx::parse_shape("float16:2x?") ==
        cleave::onnx::shape{::onnx::TensorProto::FLOAT16, {2, -1}});
  CHECK(cleave::onnx::parse_assignment("a=b=1x2") == std::pair<std::string, std::string_view>{"a=b", "1x2"});
  for (std::string const text :
       {"", "x", "1x", "x1", "1xx2", "-1", "1.5", "1e3", "99999999999999999999", "float77:1", "1,2"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(cleave::onnx::parse_shape(text), cleave::onnx::error);
  }
  CHECK_THROWS_AS(cleave::onnx::parse_assignment("=3"), cleave::onnx::error);
  CHECK_THROWS_AS(cleave::onnx::parse_assignment("batch"), cleave::onnx::error);
}

TEST_CASE("onnx::element_size: knows every element type of ONNX 1.12 except strings") {
  for (int type = ::onnx::TensorProto::FLOAT; type <= ::onnx::TensorProto::BFLOAT16; ++type) {
    CAPTURE(type);
    CHECK((cleave::onnx::element_size(type) > 0) == (type != ::onnx::TensorProto::STRING));
  }
  CHECK(cleave::onnx::element_size(0) == 0);
  CHECK(cleave::onnx::element_size(77) == 0);
}

TEST_CASE("onnx::types: keeps symbolic dimensions of the file, and omits those made up by inference") {
  cleave::onnx::types const types(dynamic);
  CHECK(spelt(types, "h") == "float32 batchx4");
  CHECK(spelt(types, "z") == "float32 ?");
  CHECK(types.bytes("h") == 0);
  CHECK(types.bytes("w") == 128);
  CHECK(types.declaration("nobody") == nullptr);
}

TEST_CASE("onnx::types: sizes from the user set prices but do not change declarations") {
  cleave::onnx::types const types(dynamic, {.dims = {{"batch", 5}}});
  CHECK(types.bytes("h") == 5 * 4 * 4);
  CHECK(priced(types, "r") == "float32 5x4");
  CHECK(spelt(types, "r") == "float32 batchx4");
  cleave::onnx::types const shaped(dynamic, {.shapes = {{"z", {0, {20}}}, {"x", {0, {3, 8}}}}});
  CHECK(shaped.bytes("z") == 80);
  CHECK(priced(shaped, "h") == "float32 3x4");
  CHECK(spelt(shaped, "h") == "float32 batchx4");
}

TEST_CASE("onnx::types: keeps each type once unless sizes of the user set prices apart") {
  cleave::onnx::types const plain(dynamic);
  auto const sized = plain.with(dynamic, {.dims = {{"batch", 3}}});
  for (auto const* value : {"x", "h", "r", "y"}) {
    CAPTURE(value);
    CHECK(plain.declaration(value) == plain.priced(value));
    CHECK(sized.declaration(value) != sized.priced(value));
    CHECK(sized.declaration(value) == plain.declaration(value));
  }
}

TEST_CASE("onnx::types: a value of a foreign operator has the type that the user gives") {
  auto m = onnx_text("f (float[2, 3] x) => (float[2, 3] y) { b = acme.Frob(x)  y = Relu(b) }");
  import_domain(m, "acme");
  CHECK(spelt(cleave::onnx::types(m), "b") == "unknown");
  cleave::onnx::types const given(m, {.shapes = {{"b", {0, {2, 3}}}}});
  CHECK(spelt(given, "b") == "float32 2x3");
  CHECK(given.bytes("b") == 24);
  cleave::onnx::types const half(m, {.shapes = {{"b", cleave::onnx::parse_shape("float16:2x?")}}});
  CHECK(spelt(half, "b") == "float16 2x?");
  CHECK(half.bytes("b") == 0);
}

TEST_CASE("onnx::types: rejects an option that contradicts the model and names it") {
  auto const refused = [](cleave::onnx::type_options const& options, std::string const& name) {
    try {
      cleave::onnx::types const types(dynamic, options);
    } catch (cleave::onnx::error const& e) {
      return e.witness.names == std::vector<std::string>{name} &&
             std::string(e.what()).find(name) != std::string::npos;
    }
    return false;
  };
  CHECK(refused({.dims = {{"bach", 5}}}, "bach"));
  CHECK(refused({.dims = {{"batch", -5}}}, "batch"));
  CHECK(refused({.shapes = {{"nobody", {0, {1}}}}}, "nobody"));
  CHECK(refused({.shapes = {{"", {0, {1}}}}}, ""));
  CHECK(refused({.shapes = {{"h", {0, {5, 9}}}}}, "h"));
  CHECK(refused({.shapes = {{"h", {0, {5, 4, 1}}}}}, "h"));
  CHECK(refused({.shapes = {{"h", cleave::onnx::parse_shape("int64:5x4")}}}, "h"));
  CHECK(!refused({.shapes = {{"h", cleave::onnx::parse_shape("float32:5x4")}}}, "h"));
}

TEST_CASE("onnx::types: infers types of unsorted nodes and keeps their order") {
  auto m = onnx_text("f (float[2, 3] x) => (float[2, 3] y) { h = Relu(x)  k = Tanh(h)  y = Neg(k) }");
  m.mutable_graph()->mutable_node()->SwapElements(0, 1);
  m.mutable_graph()->mutable_node()->SwapElements(1, 2);  // k, y, h
  cleave::onnx::types const types(m);
  CHECK(spelt(types, "h") == "float32 2x3");
  CHECK(spelt(types, "k") == "float32 2x3");
  for (int i = 0; i < 3; ++i)
    CHECK(types.priced_model().graph().node(i).output(0) == m.graph().node(i).output(0));
}

TEST_CASE("onnx::types: a wrong declaration does not affect other values") {
  cleave::onnx::types const types(onnx_text(R"(f (float[2, 3] x) => (float[6] y, float[2] z) {
    h = Relu(x)
    y = Tanh(h)
    z = ReduceSum<keepdims = 0>(h)
  })"));
  CHECK(!types.complaint().empty());
  CHECK(spelt(types, "h") == "float32 2x3");
  CHECK(spelt(types, "y") == "float32 2x3");
}

TEST_CASE("onnx::types: rejects a size that overflows") {
  cleave::onnx::types const types(
      onnx_text("f (float[4611686018427387904] x) => (float[4611686018427387904] y) { y = Relu(x) }"));
  CHECK_THROWS_WITH_AS(types.bytes("x"), doctest::Contains("does not fit"), cleave::onnx::error);
  cleave::onnx::types const empty(
      onnx_text("f (float[4611686018427387904, 0, 8] x) => (float[b] y) { y = Relu(x) }"));
  CHECK(empty.bytes("x") == 0);
}

TEST_CASE("onnx::types: does not copy the data of large weights, but copies that of shapes") {
  auto m = onnx_text("f (float[8] x) => (float[2, 4] y) <int64[2] s = {2, 4}> { y = Reshape(x, s) }");
  auto& heavy = *m.mutable_graph()->add_initializer();
  heavy.set_name("heavy");
  heavy.set_data_type(::onnx::TensorProto::FLOAT);
  heavy.add_dims(1 << 20);
  heavy.mutable_raw_data()->resize(std::size_t{4} << 20);
  CHECK(onnx_outline(m).ByteSizeLong() < 1000);
  cleave::onnx::types const types(m);
  CHECK(types.bytes("heavy") == std::size_t{4} << 20);
  CHECK(spelt(types, "y") == "float32 2x4");
}

TEST_CASE("onnx::types: a default that the caller may override does not determine a shape") {
  auto m = onnx_text("f (float[8] x, int64[2] s) => (float[a, b] y) { h = Reshape(x, s)  y = Relu(h) }");
  auto& shape = *m.mutable_graph()->add_initializer();
  shape.set_name("s");
  shape.set_data_type(::onnx::TensorProto::INT64);
  shape.add_dims(2);
  shape.add_int64_data(2);
  shape.add_int64_data(4);
  CHECK(spelt(cleave::onnx::types(m), "h") == "float32 ?x?");
  m.set_ir_version(3);  // in IR version 3 it is not a default but the value
  CHECK(spelt(cleave::onnx::types(m), "h") == "float32 2x4");
}

TEST_CASE("onnx_functions_unfold: rejects functions that unfold too far or without end") {
  ::onnx::ModelProto m = onnx_text("f (float[2] x) => (float[2] y) { y = Relu(x) }");
  auto const function = [&](int i, int calls) -> ::onnx::FunctionProto& {
    auto& f = *m.add_functions();
    f.set_domain("d");
    f.set_name("f" + std::to_string(i));
    for (int c = 0; c < calls; ++c) {
      auto& n = *f.add_node();
      n.set_domain("d");
      n.set_op_type("f" + std::to_string(i + 1));
    }
    return f;
  };
  for (int i = 0; i < 40; ++i) function(i, 2);
  CHECK(!onnx_functions_unfold(m));  // 2^40 nodes
  m.clear_functions();
  for (int i = 0; i < 40; ++i) function(i, 1);
  CHECK(onnx_functions_unfold(m));
  for (int i = 40; i < 100; ++i) function(i, 1);
  CHECK(!onnx_functions_unfold(m));  // 100 calls deep
  m.clear_functions();
  function(0, 1).mutable_node(0)->set_op_type("f0");
  CHECK(!onnx_functions_unfold(m));
}

TEST_CASE("onnx::types: the types of boundary values fit the recorded run, in all models") {
  std::size_t checked = 0, ranked = 0;
  for (auto const& file : some_model_files("ladder_100k")) {
    auto const name = model_name(file);
    CAPTURE(name);
    cleave::onnx::types const types(read_model(file));
    CHECK(types.complaint().empty());
    auto const recorded = sidecar(name).value("boundary_values", nlohmann::json::object());
    for (auto const& [value, seen] : recorded.items()) {
      CAPTURE(value);
      auto const* type = types.declaration(value);
      REQUIRE(type != nullptr);
      ++checked;
      if (!seen.contains("shape")) continue;
      CHECK(fits(*type, seen.at("shape")));
      bool const has_rank = type->tensor_type().has_shape();
      auto const known = seen.value("inferred_with_data_propagation", seen.at("inferred").get<std::string>());
      if (known == "full" || known == "partial") CHECK(has_rank);
      ranked += has_rank;
    }
  }
  CHECK(checked > (all_models() ? 250 : 150));
  CHECK(ranked > (all_models() ? 200 : 120));
}

TEST_CASE("onnx::types: a sparse initializer gives the type of a tensor to the nodes that read it") {
  auto m = onnx_text("f (float[4, 4] x) => (float[4, 4] y) { a = MatMul(x, w)  y = Relu(a) }");
  auto& sparse = *m.mutable_graph()->add_sparse_initializer();
  for (int i = 0; i < 2; ++i) sparse.add_dims(4);
  auto& values = *sparse.mutable_values();
  values.set_name("w");
  values.set_data_type(::onnx::TensorProto::FLOAT);
  values.add_dims(1);
  values.add_float_data(2);
  sparse.mutable_indices()->set_data_type(::onnx::TensorProto::INT64);
  sparse.mutable_indices()->add_dims(1);
  sparse.mutable_indices()->add_int64_data(5);
  cleave::onnx::types const t(m);
  REQUIRE(t.declaration("a") != nullptr);
  CHECK(cleave::onnx::spelling(*t.declaration("a")) == "float32 4x4");
}
