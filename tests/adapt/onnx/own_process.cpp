// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/own_process.hpp"

#include <doctest/doctest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include "cleave/adapt/onnx/check.hpp"
#include "cleave/adapt/onnx/cost.hpp"
#include "cleave/adapt/onnx/types.hpp"
#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace std::chrono_literals;

namespace {

/// A model of one node that reads `x` of shape 2x3x4x5 and makes the output `y`.
::onnx::ModelProto one_node(std::string const& op) {
  ::onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(13);
  auto& g = *m.mutable_graph();
  auto& x = *g.add_input();
  x.set_name("x");
  auto& type = *x.mutable_type()->mutable_tensor_type();
  type.set_elem_type(::onnx::TensorProto::FLOAT);
  for (int const d : {2, 3, 4, 5}) type.mutable_shape()->add_dim()->set_dim_value(d);
  auto& n = *g.add_node();
  n.set_op_type(op);
  n.add_input("x");
  n.add_output("y");
  g.add_output()->set_name("y");
  return m;
}

/// Kills a process while its child runs `f`. Returns whether the child ends within 5 seconds.
template <class F>
bool ends_with_its_parent(F f) {
  int held[2];  // open in the child until it ends
  REQUIRE(pipe(held) == 0);
  pid_t const parent = fork();
  if (parent == 0) {
    cleave::onnx::in_own_process([&] { return write(held[1], "x", 1) == 1 ? f() : ""; }, 100s);
    _exit(0);
  }
  close(held[1]);
  char begun = 0;
  CHECK(read(held[0], &begun, 1) == 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  pollfd closed{held[0], POLLIN, 0};
  bool const ended = poll(&closed, 1, 5000) == 1;
  close(held[0]);
  return ended;
}

}  // namespace

TEST_CASE("onnx::in_own_process: returns text of any length and with any bytes unchanged") {
  for (std::size_t const size : {0u, 1u, 70'000u, 5'000'000u}) {
    std::string text(size, 'x');
    if (size > 0) text[size / 2] = '\0';
    CHECK(cleave::onnx::in_own_process([&] { return text; }, 20s) == text);
  }
}

TEST_CASE("onnx::in_own_process: returns nothing after a crash, an exception, an early exit or a timeout") {
  auto const text = [] { return std::string(); };
  CHECK(!cleave::onnx::in_own_process([&] { return raise(SIGSEGV), text(); }, 20s));
  CHECK(!cleave::onnx::in_own_process([&] { return raise(SIGKILL), text(); }, 20s));
  CHECK(!cleave::onnx::in_own_process([&] { return std::abort(), text(); }, 20s));
  CHECK(!cleave::onnx::in_own_process([&]() -> std::string { throw std::runtime_error("no"); }, 20s));
  CHECK(!cleave::onnx::in_own_process([&] { return _exit(0), text(); }, 20s));
  auto const before = std::chrono::steady_clock::now();
  CHECK(!cleave::onnx::in_own_process([&] { return std::this_thread::sleep_for(100s), text(); }, 50ms));
  CHECK(std::chrono::steady_clock::now() - before < 10s);
}

TEST_CASE("onnx::in_own_process: the child ends with its parent, whether it computes or writes") {
  CHECK(ends_with_its_parent([] { return std::this_thread::sleep_for(100s), std::string(); }));
  CHECK(ends_with_its_parent([] { return std::this_thread::sleep_for(300ms), std::string(1 << 20, 'x'); }));
}

TEST_CASE("onnx::in_own_process: does not change the memory of the calling process") {
  int here = 1;
  CHECK(cleave::onnx::in_own_process([&] { return std::to_string(++here); }, 20s) == "2");
  CHECK(here == 1);
}

TEST_CASE("onnx::types: reports a crash of libonnx's inference and keeps the declared types") {
  auto narrow_weight = one_node("ConvTranspose");
  auto& w = *narrow_weight.mutable_graph()->add_initializer();
  w.set_name("w");
  w.set_data_type(::onnx::TensorProto::FLOAT);
  w.add_dims(1);
  w.add_float_data(1);
  narrow_weight.mutable_graph()->mutable_node(0)->add_input("w");

  auto no_step = one_node("MaxPool");
  auto& n = *no_step.mutable_graph()->mutable_node(0);
  for (auto const* name : {"kernel_shape", "strides"}) {
    auto& a = *n.add_attribute();
    a.set_name(name);
    a.set_type(::onnx::AttributeProto::INTS);
    for (int i = 0; i < 2; ++i) a.add_ints(a.name() == "strides" ? 0 : 1);
  }
  for (auto const& model : {narrow_weight, no_step}) {
    CAPTURE(model.graph().node(0).op_type());
    REQUIRE(!find_onnx_fault(model));
    cleave::onnx::types const types(model);
    CHECK(types.complaint().find("crashed") != std::string::npos);
    CHECK(types.bytes("x") == 2 * 3 * 4 * 5 * 4);
    CHECK(types.bytes("y") == 0);
    CHECK(cleave::onnx::costs_of(types).of.size() == 1);
  }
}

TEST_CASE("onnx::types: bodies in bodies get the same types from a child process") {
  auto const model = testing::onnx_text(
      "f (float[2, 3] x, bool c) => (float[] y) { k = Constant<value_int = 5>() r = Relu(x) z = If(c) <"
      "then_branch = g () => (float[] p) { p = Tanh(r) }, else_branch = h () => (float[] q) { "
      "o = Loop(k, , r) <body = b (int64 i, bool e, float[] v) => (bool s, float[] u) { s = Identity(e) "
      "u = Loop(k, , v) <body = n (int64 i2, bool e2, float[] v2) => (bool s2, float[] u2) { "
      "s2 = Identity(e2) u2 = Relu(v2) }> }> q = Tanh(o) }> y = Relu(z) }");
  cleave::onnx::types const there(model), here(model, {.inference = cleave::onnx::inference::same_process});
  CHECK(there.complaint().empty());
  CHECK(there.priced_model().SerializeAsString() == here.priced_model().SerializeAsString());
  auto const& loop = there.priced_model().graph().node(2).attribute(1).g().node(0).attribute(0).g();
  auto const& inner = loop.node(1).attribute(0).g();
  CHECK(cleave::onnx::spelling(inner.output(1).type()) == "float32 2x3");
}

TEST_CASE("onnx::types: inference gives the same result in a child process and in the same process") {
  for (auto const& file : testing::model_files(testing::giants::left_out)) {
    CAPTURE(file);
    auto const model = testing::read_model(file);
    cleave::onnx::types const there(model), here(model, {.inference = cleave::onnx::inference::same_process});
    CHECK(there.complaint() == here.complaint());
    CHECK(there.priced_model().SerializeAsString() == here.priced_model().SerializeAsString());
  }
}
