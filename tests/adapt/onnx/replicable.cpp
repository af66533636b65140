// SPDX-License-Identifier: MIT
#include <doctest/doctest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cleave/adapt/onnx/check.hpp"
#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/split_onnx.hpp"
#include "cleave/adapt/onnx/stages.hpp"
#include "cleave/adapt/onnx/unpriced.hpp"
#include "support/cases.hpp"
#include "support/onnx_cut.hpp"
#include "support/onnx_text.hpp"
#include "support/rng.hpp"

using namespace cleave;
using namespace cleave::testing;

namespace {

using strings = std::vector<std::string>;

/// A node as the generator knows it: all values that it and its bodies read, and whether it is random or of
/// an unknown operator.
struct made_node {
  std::set<std::string> reads;
  bool random = false;
};

/// A random model, with what is known about it without reading it.
struct random_onnx {
  ::onnx::ModelProto model;
  std::map<std::string, made_node> maker;  // of each value that a node makes
  std::set<std::string> inputs, weights;   // overridable weights are inputs
};

::onnx::NodeProto& add_node(::onnx::GraphProto& g, std::string const& op, strings const& in,
                            std::string const& out) {
  auto& n = *g.add_node();
  n.set_op_type(op);
  n.set_name(out);
  for (auto const& name : in) n.add_input(name);
  n.add_output(out);
  return n;
}

::onnx::GraphProto& add_body(::onnx::NodeProto& n, std::string const& name) {
  auto& a = *n.add_attribute();
  a.set_name(name);
  a.set_type(::onnx::AttributeProto::GRAPH);
  a.mutable_g()->set_name(name);
  return *a.mutable_g();
}

random_onnx random_model(rng& random, bool with_unknown) {
  random_onnx r{onnx_text(R"(f (float[2] x, float[2] d, bool c) => (float[2] out)
    <float[2] u = {1, 2}, float[2] w = {3, 4}, float[2] d = {5, 6}, bool t = {1}> { })"),
                {},
                {"x", "d", "c"},
                {"u", "w", "t"}};
  auto& m = r.model;
  for (std::string const domain : {"f", "acme"}) import_domain(m, domain);
  add_function(m, "f", "plain", {"a"}).set_op_type("Neg");
  add_function(m, "f", "random", {"a"}).set_op_type("RandomNormalLike");
  for (std::string const callee : {"plain", "random"}) {
    auto& n = add_function(m, "f", "calls_" + callee, {"a"});
    n.set_op_type(callee);
    n.set_domain("f");
  }
  auto& g = *m.mutable_graph();
  strings values = {"x", "u", "w", "d"};
  auto const any = [&] { return values[random.below(values.size())]; };
  auto const size = 1 + random.below(24);
  for (std::size_t i = 0; i < size; ++i) {
    auto const out = "v" + std::to_string(i);
    auto const a = any(), b = any();
    made_node made{{a}, false};
    switch (random.below(with_unknown ? 12 : 10)) {
      case 0:
        add_node(g, "Neg", {a}, out);
        break;
      case 1:
        add_node(g, "Identity", {a}, out);
        break;
      case 2:
        add_node(g, "RandomNormalLike", {a}, out);
        made.random = true;
        break;
      case 3: {
        auto& shape = *add_node(g, "RandomUniform", {}, out).add_attribute();
        shape.set_name("shape");
        shape.set_type(::onnx::AttributeProto::INTS);
        shape.add_ints(2);
        made = {{}, true};
        break;
      }
      case 4: {  // a condition that is a weight, or an input
        std::string const condition = random.one_in(2) ? "t" : "c";
        auto& choice = add_node(g, "If", {condition}, out);
        made = {{condition, a, b}, random.one_in(4)};
        add_node(add_body(choice, "then_branch"), made.random ? "RandomUniformLike" : "Neg", {a},
                 out + "_then");
        add_node(add_body(choice, "else_branch"), "Add", {a, b}, out + "_else");
        for (auto& branch : *choice.mutable_attribute())
          branch.mutable_g()->add_output()->set_name(branch.g().node(0).output(0));
        for (auto& branch : *choice.mutable_attribute()) {
          auto& type = *branch.mutable_g()->mutable_output(0)->mutable_type()->mutable_tensor_type();
          type.set_elem_type(::onnx::TensorProto::FLOAT);
          type.mutable_shape()->add_dim()->set_dim_value(2);
        }
        break;
      }
      case 5:
      case 6: {
        std::string const f[] = {"plain", "random", "calls_plain", "calls_random"};
        auto const which = random.below(4);
        add_node(g, f[which], {a}, out).set_domain("f");
        made.random = which % 2 == 1;
        break;
      }
      case 10:
      case 11:
        add_node(g, "Unknown", {a}, out).set_domain("acme");
        made.random = true;
        break;
      default:
        add_node(g, "Add", {a, b}, out);
        made.reads.insert(b);
    }
    r.maker.emplace(out, made);
    values.push_back(out);
    if (random.one_in(6)) {
      g.add_output()->set_name(out);
      auto& type = *g.mutable_output(g.output_size() - 1)->mutable_type()->mutable_tensor_type();
      type.set_elem_type(::onnx::TensorProto::FLOAT);
    }
  }
  add_node(g, "Add", {values.back(), any()}, "out");
  auto const& last = g.node(g.node_size() - 1);
  r.maker.emplace("out", made_node{{last.input(0), last.input(1)}, false});
  return r;
}

/// Returns whether a value depends on weights alone, by visiting everything that it depends on.
bool depends_on_weights_alone(random_onnx const& r, std::string const& value) {
  if (!r.maker.contains(value)) return !r.inputs.contains(value);
  if (r.maker.at(value).random) return false;
  return std::ranges::all_of(r.maker.at(value).reads,
                             [&](auto const& name) { return depends_on_weights_alone(r, name); });
}

/// Adds what evaluates to the value of each node: a text of its name and of all values that it reads. Fails
/// if one of them is not there.
void evaluate(random_onnx const& r, ::onnx::ModelProto const& stage, std::map<std::string, std::string>& all,
              std::map<std::string, int>& times) {
  std::map<std::string, std::string> here;
  for (auto const& t : stage.graph().initializer()) here[t.name()] = t.name();
  for (auto const& v : stage.graph().input()) {
    REQUIRE((all.contains(v.name()) || here.contains(v.name())));
    if (all.contains(v.name())) here[v.name()] = all[v.name()];
  }
  for (auto const& n : stage.graph().node()) {
    auto const& out = n.output(0);
    std::string value = out + "(";
    for (auto const& name : r.maker.at(out).reads) {
      REQUIRE_MESSAGE(here.contains(name), name);
      value += std::to_string(std::hash<std::string>()(here[name])) + " ";
    }
    here[out] = value;
    ++times[out];
  }
  for (auto const& v : stage.graph().output()) {
    CHECK((!all.contains(v.name()) || r.inputs.contains(v.name())));  // from one stage
    all[v.name()] = here.at(v.name());
  }
}

/// Checks the stages of a cut of `r`: they compute what the whole does, and nothing of weights alone is sent.
void check_cut(random_onnx const& r, cleave::onnx::split_result const& cut) {
  auto const& g = *cut.graph;
  auto const models = cleave::onnx::stages(cut.stages, cut.types);
  std::map<std::string, std::string> whole, staged;
  for (auto const& name : r.inputs) whole[name] = staged[name] = "input " + name;
  std::map<std::string, int> once, times;
  evaluate(r, r.model, whole, once);
  for (auto const& stage : models) {
    auto const fault = cleave::detail::find_onnx_fault(stage);
    CHECK_MESSAGE(!fault, (fault ? fault->message : ""));
    for (auto const& v : stage.graph().input())
      CHECK((r.inputs.contains(v.name()) || !depends_on_weights_alone(r, v.name())));
    evaluate(r, stage, staged, times);
  }
  for (auto const& v : r.model.graph().output()) CHECK(staged[v.name()] == whole[v.name()]);
  for (auto const& [name, count] : times)
    if (!depends_on_weights_alone(r, name)) CHECK_MESSAGE(count == 1, name);
  for (auto const& t : cut.stages.plan().transfers) {
    auto const name = g.name_of(cut.stages.snapshot().value[t.value]);
    CHECK(cut.types.declaration(name) != nullptr);
    CHECK(!depends_on_weights_alone(r, std::string(name)));
  }
  std::size_t copied = 0;
  for (auto const n : g.nodes()) copied += depends_on_weights_alone(r, g.proto(n).output(0));
  auto const notes = cleave::onnx::notes_of(cut.stages);
  CHECK(notes.copied.size() == copied);
  std::size_t copies = 0;
  for (auto const& [name, count] : times)
    copies += depends_on_weights_alone(r, name) ? std::size_t(count) : 0;
  CHECK(notes.copies == copies);
}

cleave::onnx::split_options const in_this_process{
    .types = {.inference = cleave::onnx::inference::same_process}};

/// Returns which of the nodes named `names` are replicable in a model with this text, as `1` and `0`.
std::string replicable_in(::onnx::ModelProto const& m) {
  cleave::onnx::graph const g(m);
  std::string found;
  for (auto const n : g.nodes()) found += g.replicable(n) ? '1' : '0';
  return found;
}

}  // namespace

TEST_CASE("onnx::graph: a node is replicable if all that it depends on are weights, in random models") {
  rng random(71);
  std::size_t replicable = 0, others = 0;
  for (int round = 0; round < 400; ++round) {
    auto const r = random_model(random, true);
    REQUIRE(!cleave::detail::find_onnx_fault(r.model));
    cleave::onnx::graph const g(r.model, {.live_only = false});
    for (auto const n : g.nodes()) {
      auto const& made = g.proto(n).output(0);
      CAPTURE(made);
      CHECK(g.replicable(n) == depends_on_weights_alone(r, made));
      CHECK(g.is_constant(*g.find_value(made)) == g.replicable(n));
      ++(g.replicable(n) ? replicable : others);
    }
    cleave::onnx::graph const plain(r.model, {.constants = cleave::onnx::constants::as_nodes});
    CHECK(std::ranges::none_of(plain.nodes(), [&](auto n) { return plain.replicable(n); }));
  }
  CHECK(replicable > 500);
  CHECK(others > 500);
}

TEST_CASE(
    "onnx::split: stages of random models compute the same and send nothing that depends on weights alone") {
  rng random(72);
  for (std::size_t round = 0; round < cases(40, 150); ++round) {
    auto const r = random_model(random, false);
    for (std::uint32_t const k : {1u, 2u, 3u, 5u}) {
      auto const cut = cleave::onnx::split(r.model, k, in_this_process);
      auto const nodes = nodes_to_place(*cut.graph);
      CHECK(cut.stages.size() == std::max(1u, std::min(k, nodes)));
      check_cut(r, cut);
    }
  }
}

TEST_CASE("onnx::split: sends no value of unknown type, and the error says how many stages are possible") {
  rng random(73);
  std::size_t refused = 0, cut_apart = 0;
  auto const rounds = cases(40, 150);
  for (std::size_t round = 0; round < rounds; ++round) {
    auto const r = random_model(random, true);
    for (std::uint32_t const k : {2u, 4u, 8u}) try {
        auto const cut = cleave::onnx::split(r.model, k, in_this_process);
        check_cut(r, cut);
        cut_apart += cut.stages.size() > 1;
      } catch (cleave::onnx::error const& e) {
        ++refused;
        std::string const said = e.what();
        CAPTURE(said);
        REQUIRE(e.witness.kind == cleave::onnx::fault_kind::type);
        REQUIRE(!e.witness.names.empty());
        CHECK(said.find("'" + e.witness.names.front() + "'") != std::string::npos);
        auto const at = said.find("(-k ");
        REQUIRE(at != std::string::npos);
        auto const possible = static_cast<std::uint32_t>(std::stoul(said.substr(at + 4)));
        CHECK(possible < k);
        auto const cut = cleave::onnx::split(r.model, possible, in_this_process);
        CHECK(cut.stages.size() == possible);
        check_cut(r, cut);
      }
  }
  CHECK(refused > rounds / 8);
  CHECK(cut_apart > rounds / 8);
}

TEST_CASE("onnx::split: avoids a value of unknown type, wherever the balance would cut") {
  auto m = onnx_text(R"(f (float[2] x) => (float[2] y) {
    a = Relu(x)
    b = Relu(a)
    c = Relu(b)
    y = Relu(c)
  })");
  import_domain(m, "acme");
  m.mutable_graph()->mutable_node(1)->set_domain("acme");  // the type of b, and so of c, is unknown
  auto const cut = cleave::onnx::split(m, 2, in_this_process);
  REQUIRE(cut.stages.plan().transfers.size() == 1);
  CHECK(cut.graph->name_of(cut.stages.snapshot().value[cut.stages.plan().transfers[0].value]) == "a");
  CHECK(cleave::onnx::notes_of(cut.stages).untyped.size() == 2);
  CHECK_THROWS_WITH_AS(cleave::onnx::split(m, 3, in_this_process),
                       "a cut into 3 stages would send values whose types are not known: 'b', 'c'; at most 2 "
                       "stages are possible "
                       "(-k 2), or give shapes and types (as in --shape NAME=float32:1x3x?)",
                       cleave::onnx::error);
  auto options = in_this_process;
  options.types.shapes["b"] = {::onnx::TensorProto::FLOAT, {2}};
  CHECK(cleave::onnx::split(m, 4, options).stages.size() == 4);
}

TEST_CASE("onnx::split: bodies capture copies, and an output of weights alone comes from one stage") {
  auto const m = onnx_text(R"(f (float[2] x, bool c) => (float[2] y, float[2] k) <float[2] w = {1, 2}> {
    k = Neg(w)
    j = Abs(k)
    a = Add(x, j)
    b = If(c) <
      then_branch = g1 () => (float[2] s) { s = Add(a, k) },
      else_branch = g2 () => (float[2] t) { t = Sub(a, j) }>
    y = Add(b, j)
  })");
  auto const cut = cleave::onnx::split(m, 3, in_this_process);
  auto const models = cleave::onnx::stages(cut.stages, cut.types);
  REQUIRE(models.size() == 3);
  auto const made = [](::onnx::ModelProto const& stage) {
    strings names;
    for (auto const& n : stage.graph().node()) names.push_back(n.output(0));
    return names;
  };
  CHECK(made(models[0]) == strings{"k", "j", "a"});
  CHECK(made(models[1]) == strings{"k", "j", "b"});
  CHECK(made(models[2]) == strings{"k", "j", "y"});
  std::map<std::string, int> given;
  for (auto const& stage : models) {
    CHECK(!cleave::detail::find_onnx_fault(stage));
    for (auto const& v : stage.graph().input())
      CHECK((v.name() != "k" && v.name() != "j" && v.name() != "w"));
    for (auto const& v : stage.graph().output()) ++given[v.name()];
  }
  CHECK(given == std::map<std::string, int>{{"a", 1}, {"b", 1}, {"y", 1}, {"k", 1}});
  auto const notes = cleave::onnx::notes_of(cut.stages);
  CHECK(notes.copied.size() == 2);
  CHECK(notes.copies == 6);
  CHECK(notes.ties.size() == 1);
}

TEST_CASE("onnx::split: a model of weights alone is one stage") {
  auto const m = onnx_text("f () => (float[2] y) <float[2] w = {1, 2}> { a = Neg(w)  y = Neg(a) }");
  auto const cut = cleave::onnx::split(m, 4, in_this_process);
  auto const models = cleave::onnx::stages(cut.stages, cut.types);
  REQUIRE(models.size() == 1);
  CHECK(models[0].graph().node_size() == 2);
  CHECK(models[0].graph().output_size() == 1);
}

TEST_CASE("onnx::split: nodes of weights alone weigh nothing, and do not move the balance") {
  auto const of_nodes = [](std::string const& nodes) {
    auto m = onnx_text("f (float[64, 64] x) => (float[64, 64] y) { " + nodes + " }");
    for (auto const* name : {"w", "v"}) {
      auto& t = *m.mutable_graph()->add_initializer();
      t.set_name(name);
      t.set_data_type(::onnx::TensorProto::FLOAT);
      for (int i = 0; i < 2; ++i) t.add_dims(64);
      t.mutable_raw_data()->resize(4 * 64 * 64);
    }
    return m;
  };
  auto const folded = of_nodes("a = MatMul(x, w)  y = MatMul(a, v)");
  auto const open =
      of_nodes("p = MatMul(w, v)  q = MatMul(p, w)  s = MatMul(q, q)  a = MatMul(x, w)  y = MatMul(a, s)");
  auto const one = cleave::onnx::split(folded, 2, in_this_process),
             two = cleave::onnx::split(open, 2, in_this_process);
  CHECK(one.parts.bottleneck == two.parts.bottleneck);
  CHECK(one.parts.bound == two.parts.bound);
  CHECK(cleave::onnx::find_unpriced(*two.graph, two.types, two.costs).of_nodes == 2);
}

TEST_CASE("onnx::graph: random operators, Dropout in training and unknown operators are not replicable") {
  auto const of_dropout = [](std::string const& operands, std::int64_t version, bool is_test) {
    auto m = onnx_text(
        "f (float[2] x) => (float[2] y) <float[2] w = {1, 2}, float r = {0.5}, bool t = {1}, bool f = {0}> "
        "{ d = Dropout(" +
        operands + ")  y = Add(x, d) }");
    m.mutable_opset_import(0)->set_version(version);
    if (is_test) {
      auto& a = *m.mutable_graph()->mutable_node(0)->add_attribute();
      a.set_name("is_test");
      a.set_type(::onnx::AttributeProto::INT);
      a.set_i(1);
    }
    return replicable_in(m);
  };
  CHECK(of_dropout("w", 6, false) == "00");
  CHECK(of_dropout("w", 6, true) == "10");
  CHECK(of_dropout("w", 10, false) == "10");
  CHECK(of_dropout("w, r", 13, false) == "10");
  CHECK(of_dropout("w, r, f", 13, false) == "10");
  CHECK(of_dropout("w, r, t", 13, false) == "00");

  auto const of_operator = [](std::string const& op, std::string const& domain) {
    auto m = onnx_text("f (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { d = Abs(w)  y = Add(x, d) }");
    m.mutable_graph()->mutable_node(0)->set_op_type(op);
    m.mutable_graph()->mutable_node(0)->set_domain(domain);
    if (!domain.empty() && domain != "ai.onnx") import_domain(m, domain);
    return replicable_in(m);
  };
  for (auto const* op : {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform",
                         "RandomUniformLike"}) {
    CAPTURE(std::string(op));
    CHECK(of_operator(op, "") == "00");
    CHECK(of_operator(op, "ai.onnx") == "00");
  }
  CHECK(of_operator("Abs", "ai.onnx") == "10");
  CHECK(of_operator("Normalizer", "ai.onnx.ml") == "10");
  CHECK(of_operator("DequantizeLinear", "com.microsoft") == "10");
  CHECK(of_operator("Sampling", "com.microsoft") == "00");
  CHECK(of_operator("Abs", "acme") == "00");

  // The switch of Dropout is an input that has a default, or is in a body.
  auto open = onnx_text(
      "f (float[2] x, bool f) => (float[2] y) <float[2] w = {1, 2}, float r = {0.5}, bool f = {0}> "
      "{ d = Dropout(w, r, f)  y = Add(x, d) }");
  CHECK(replicable_in(open) == "00");
  open.set_ir_version(3);
  CHECK(replicable_in(open) == "10");
}

TEST_CASE("onnx::notes_of: lists nodes of weights alone that may be random") {
  auto const m = onnx_text(R"(f (float[2] x) => (float[2] y) <float[2] w = {1, 2}> {
    n = RandomNormalLike(w)
    k = Neg(n)
    j = Neg(w)
    a = Add(x, k)
    y = Add(a, j)
  })");
  auto const cut = cleave::onnx::split(m, 2, in_this_process);
  auto const notes = cleave::onnx::notes_of(cut.stages);
  CHECK(notes.not_copied == std::vector<cleave::onnx::graph::node>{0});
  CHECK(notes.copied == std::vector<cleave::onnx::graph::node>{2});
  CHECK(notes.copies == 1);
}

TEST_CASE("onnx::stages: copies of a node keep its name, and another node of that name loses it") {
  auto m = onnx_text(R"(f (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}, bool t = {1}> {
    k = If(t) <
      then_branch = g1 () => (float[2] s) { s = Neg(w) },
      else_branch = g2 () => (float[2] r) { r = Abs(w) }>
    a = Add(x, k)
    y = Add(a, k)
  })");
  auto& g = *m.mutable_graph();
  g.mutable_node(0)->set_name("first");
  for (auto& branch : *g.mutable_node(0)->mutable_attribute())
    branch.mutable_g()->mutable_node(0)->set_name("inner");
  g.mutable_node(1)->set_name("inner");
  g.mutable_node(2)->set_name("first");
  cleave::onnx::graph const read(m);
  auto const models = cleave::onnx::stages(split(read, equal_slices(read, 2)), cleave::onnx::types(m));
  REQUIRE(models.size() == 2);
  strings inner[2];
  for (std::size_t i = 0; i < 2; ++i) {
    REQUIRE(models[i].graph().node_size() == 2);
    CHECK(models[i].graph().node(0).name() == "first");
    CHECK(models[i].graph().node(1).name().empty());
    for (auto const& branch : models[i].graph().node(0).attribute())
      inner[i].push_back(branch.g().node(0).name());
  }
  CHECK(std::ranges::count(inner[0], "inner") == 1);  // two nodes in one body's holder had the same name
  CHECK(inner[0] == inner[1]);
}
