// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/unpriced.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "support/model_corpus.hpp"
#include "support/onnx_text.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

/// A model with its types and costs, inferred with the options `given`.
struct priced_model {
  explicit priced_model(::onnx::ModelProto m, cleave::onnx::type_options told = {})
      : proto(std::move(m)),
        given(std::move(told)),
        types(proto, given),
        costs(cleave::onnx::costs_of(types)),
        graph(proto) {}

  unpriced lacking() const { return cleave::onnx::find_unpriced(graph, types, costs); }
  std::optional<cleave::onnx::open_size> most() const {
    return cleave::onnx::find_most_open_size(graph, types, costs, given);
  }

  ::onnx::ModelProto proto;
  cleave::onnx::type_options given;
  cleave::onnx::types types;
  cleave::onnx::costs costs;
  cleave::onnx::graph graph;
};

/// The number of nodes without a price and of values without a size, if the model has these sizes.
std::pair<std::size_t, std::size_t> counted(::onnx::ModelProto const& m,
                                            cleave::onnx::type_options const& given) {
  cleave::onnx::types const types(m, given);
  auto const costs = cleave::onnx::costs_of(types);
  cleave::onnx::graph const g(m);
  std::pair<std::size_t, std::size_t> count;
  auto const is_read = [&](auto v) {
    return std::ranges::any_of(g.nodes(), [&](auto n) { return std::ranges::count(g.reads(n), v) > 0; });
  };
  for (auto const n : g.nodes()) {
    if (g.replicable(n)) continue;
    if (costs.of[n].unknown) ++count.first;
    for (auto const v : g.results(n))
      if (!cleave::onnx::most_elements(types.priced(g.name_of(v))) && is_read(v)) ++count.second;
  }
  return count;
}

/// The largest number of nodes and values that one symbolic dimension, or the shape of one input, prices.
std::pair<std::size_t, std::size_t> most_by_brute_force(::onnx::ModelProto const& m) {
  auto const now = counted(m, {});
  std::pair<std::size_t, std::size_t> most;
  auto const attempt = [&](cleave::onnx::type_options const& given) {
    auto const then = counted(m, given);
    most = std::max(
        most, {now.first - std::min(now.first, then.first), now.second - std::min(now.second, then.second)});
  };
  std::set<std::string> symbols;
  for (auto const* list : {&m.graph().input(), &m.graph().output(), &m.graph().value_info()})
    for (auto const& v : *list)
      for (auto const& d : v.type().tensor_type().shape().dim())
        if (!d.dim_param().empty()) symbols.insert(d.dim_param());
  for (std::int64_t const size : {64, 8, 1}) {
    for (auto const& s : symbols) attempt({.dims = {{s, size}}});
    for (auto const& v : m.graph().input()) {
      if (!v.type().tensor_type().has_shape()) continue;
      cleave::onnx::shape shape;
      for (auto const& d : v.type().tensor_type().shape().dim())
        shape.dims.push_back(d.has_dim_value() ? d.dim_value() : size);
      attempt({.shapes = {{v.name(), shape}}});
    }
  }
  return most;
}

}  // namespace

TEST_CASE(
    "onnx::find_unpriced: counts nodes without a price and values without a size, but no empty values") {
  priced_model const m(
      onnx_text("f (float[N, 4] x, float[3, 4] y, float[0, 4] e) => (float[a, b] z, float[c] w, float[d] v)"
                "{ p = Relu(x)  q = Relu(y)  r = Relu(e)  z = Add(p, x)  w = ReduceSum<keepdims = 0>(q)  v = "
                "ReduceSum<keepdims = 0>(r) }"));
  CHECK(m.lacking() == unpriced{.nodes = 2, .of_nodes = 6, .values = 1, .of_values = 3});
  priced_model const told(m.proto, {.dims = {{"N", 5}}});
  CHECK(told.lacking() == unpriced{.nodes = 0, .of_nodes = 6, .values = 0, .of_values = 3});
  CHECK(!told.most());
}

TEST_CASE("onnx::find_most_open_size: returns the dimension or input shape that prices most") {
  // N is in one operation, M in three.
  std::string const body = "{ p = Relu(x)  q = Relu(y)  r = Relu(q)  s = Relu(r)  t = Relu(k) }";
  auto const most =
      priced_model(
          onnx_text(
              "f (float[N, 4] x, float[M, 4] y, float[3] k) => (float[N, 4] p, float[M, 4] s, float[3] t)" +
              body))
          .most();
  REQUIRE(most);
  CHECK(*most == cleave::onnx::open_size{
                     .what = cleave::onnx::open_size::kind::dimension, .name = "M", .nodes = 3, .values = 2});
  // An input with two open dimensions; neither is enough alone.
  auto const shape =
      priced_model(onnx_text("f (float[A, 3, B] y) => (float[A, 3, B] r) { q = Relu(y)  r = Relu(q) }"))
          .most();
  REQUIRE(shape);
  CHECK(*shape == cleave::onnx::open_size{.what = cleave::onnx::open_size::kind::value,
                                          .name = "y",
                                          .shape = {0, {-1, 3, -1}},
                                          .nodes = 2,
                                          .values = 1});
}

TEST_CASE("onnx::find_most_open_size: without open inputs, returns the value at which most shapes are lost") {
  auto proto = onnx_text(
      "f (float[8] x, int64[2] s) => (float[n] b, float[m, k] e)"
      "{ i = acme.Crop(x)  t = Transpose(i)  e = Identity(t)  j = Relu(x)  u = Reshape(j, s) "
      "  v = Cast<to = 1>(u)  w = Relu(v)  a = Relu(w)  b = Relu(a) }");
  import_domain(proto, "acme");
  priced_model const m(proto);
  auto const most = m.most();
  REQUIRE(most);
  CHECK(most->what == cleave::onnx::open_size::kind::value);
  CHECK(most->name == "u");
  CHECK(!most->measured);
  CHECK(most->ranked);
  CHECK(most->shape.dims == std::vector<std::int64_t>{-1, -1});
  CHECK(most->nodes == 4);  // a Reshape moves nothing
  CHECK(most->values == 4);
}

TEST_CASE("onnx::first_unknown_shape: returns the value at which inference stops first") {
  auto const first = [](priced_model const& m) -> std::string {
    auto const v = cleave::onnx::first_unknown_shape(m.graph, m.types);
    return v ? std::string(m.graph.name_of(*v)) : "none";
  };
  auto const lost = onnx_text(
      "f (float[N, 4] x, int64[2] s) => (float[a, b] y) "
      "{ p = Relu(x)  i = NonZero(p)  q = Reshape(x, s)  r = Tanh(q)  y = Relu(r) }");
  CHECK(first(priced_model(lost)) == "x");
  CHECK(first(priced_model(lost, {.dims = {{"N", 5}}})) == "q");  // NonZero has an upper bound
  CHECK(first(priced_model(lost, {.dims = {{"N", 5}}, .shapes = {{"q", {0, {10, 2}}}}})) == "none");
}

TEST_CASE("onnx::find_most_open_size: agrees with trying each size in turn, on all models") {
  std::size_t open = 0;
  for (auto const& file : model_files(giants::left_out)) {
    CAPTURE(file.filename().string());
    priced_model const m(read_model(file));
    auto const lacking = m.lacking();
    CHECK(counted(m.proto, {}) == std::pair(lacking.nodes, lacking.values));
    auto const most = m.most();
    auto const best = lacking.any() ? most_by_brute_force(m.proto) : std::pair<std::size_t, std::size_t>{};
    if (best == std::pair<std::size_t, std::size_t>{}) {
      CHECK((!most || !most->measured));
      continue;
    }
    ++open;
    REQUIRE(most);
    CHECK(std::pair(most->nodes, most->values) == best);
  }
  CHECK(open > 0);
}

TEST_CASE("onnx::find_most_open_size: tries a size that fits the known shapes") {
  priced_model const m(onnx_text(
      "f (float[N, 5, 5] x, float[5, 5, 5] table) => (float[a, b, c] z) { y = Add(x, table)  z = Relu(y) }"));
  REQUIRE(m.lacking().any());
  auto const most = m.most();
  REQUIRE(most);
  CHECK(most->nodes == m.lacking().nodes);
  CHECK(most->values == m.lacking().values);
}
