// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/check.hpp"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <string>

#include "cleave/adapt/onnx/graph.hpp"
#include "cleave/adapt/onnx/load.hpp"
#include "cleave/graph/snapshot.hpp"
#include "support/child.hpp"
#include "support/gunzip.hpp"
#include "support/model_corpus.hpp"
#include "support/rng.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using strings = std::vector<std::string>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
constexpr bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool sanitized = false;
#endif
#ifdef NDEBUG
constexpr bool bounded = !sanitized;
#else
constexpr bool bounded = false;
#endif

/// Models that the records allow to accept or reject, and that this library rejects.
std::set<std::string> const refused_by_choice{"absurd_dim", "attribute_without_value", "if_without_else"};

::onnx::NodeProto& add_node(::onnx::GraphProto& g, std::string const& op, strings const& in,
                            strings const& out) {
  auto& n = *g.add_node();
  n.set_op_type(op);
  for (auto const& name : in) n.add_input(name);
  for (auto const& name : out) n.add_output(name);
  return n;
}

::onnx::GraphProto& add_body(::onnx::NodeProto& n, std::string const& attribute) {
  auto& a = *n.add_attribute();
  a.set_name(attribute);
  a.set_type(::onnx::AttributeProto::GRAPH);
  return *a.mutable_g();
}

::onnx::TensorProto& add_weight(::onnx::GraphProto& g, std::string const& name) {
  auto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(::onnx::TensorProto::FLOAT);
  t.add_dims(2);
  t.add_float_data(1);
  t.add_float_data(2);
  return t;
}

/// y = x + w, z = If(c) of Relu(y) in both branches, and a call of `acme.twice`.
::onnx::ModelProto sound_model() {
  ::onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(13);
  auto& mine = *m.add_opset_import();
  mine.set_domain("acme");
  mine.set_version(1);
  auto& g = *m.mutable_graph();
  for (auto const* name : {"x", "c"}) g.add_input()->set_name(name);
  add_weight(g, "w");
  add_node(g, "Add", {"x", "w"}, {"y"}).set_name("adder");
  auto& choice = add_node(g, "If", {"c"}, {"z"});
  for (auto const* branch : {"then_branch", "else_branch"}) {
    auto& body = add_body(choice, branch);
    add_node(body, "Relu", {"y"}, {"r"});
    body.add_output()->set_name("r");
  }
  add_node(g, "twice", {"z"}, {"out"}).set_domain("acme");
  g.add_output()->set_name("out");
  auto& f = *m.add_functions();
  f.set_name("twice");
  f.set_domain("acme");
  f.add_input("a");
  f.add_output("b");
  f.add_opset_import()->set_version(13);
  auto& n = *f.add_node();
  n.set_op_type("Add");
  for (auto const* in : {"a", "a"}) n.add_input(in);
  n.add_output("b");
  return m;
}

/// A change to the valid model, the kind of its fault and a name that the message must contain.
struct spoiling {
  char const* what;
  cleave::onnx::fault_kind kind;
  char const* name;
  void (*apply)(::onnx::ModelProto&);
};

::onnx::GraphProto& graph(::onnx::ModelProto& m) { return *m.mutable_graph(); }
::onnx::TensorProto& weight(::onnx::ModelProto& m) { return *graph(m).mutable_initializer(0); }
::onnx::NodeProto& nth_node(::onnx::ModelProto& m, int i) { return *graph(m).mutable_node(i); }
::onnx::GraphProto& branch(::onnx::ModelProto& m) {
  return *nth_node(m, 1).mutable_attribute(0)->mutable_g();
}
void add_external(::onnx::ModelProto& m, std::string const& key, std::string const& value) {
  weight(m).set_data_location(::onnx::TensorProto::EXTERNAL);
  weight(m).clear_float_data();
  auto& entry = *weight(m).add_external_data();
  entry.set_key(key);
  entry.set_value(value);
}
::onnx::TypeProto::Tensor& input_type(::onnx::ModelProto& m) {
  return *graph(m).mutable_input(0)->mutable_type()->mutable_tensor_type();
}

using enum cleave::onnx::fault_kind;
using proto = ::onnx::ModelProto;
spoiling const spoilings[] = {
    {"no IR version", version, "", [](proto& m) { m.clear_ir_version(); }},
    {"an old IR version", version, "2", [](proto& m) { m.set_ir_version(2); }},
    {"an import without a version", version, "acme",
     [](proto& m) { m.mutable_opset_import(1)->clear_version(); }},
    {"a domain in two versions", version, "acme",
     [](proto& m) {
       (*m.add_opset_import() = m.opset_import(1)), m.mutable_opset_import(2)->set_version(2);
     }},
    {"an input without a name", name, "", [](proto& m) { graph(m).add_input(); }},
    {"an output without a name", name, "", [](proto& m) { graph(m).add_output(); }},
    {"an initializer without a name", name, "", [](proto& m) { weight(m).clear_name(); }},
    {"a body's output without a name", name, "then_branch", [](proto& m) { branch(m).add_output(); }},
    {"two initializers of one name", duplicate_value, "w", [](proto& m) { add_weight(graph(m), "w"); }},
    {"a node that makes an initializer", duplicate_value, "w",
     [](proto& m) { add_node(graph(m), "Neg", {"x"}, {"w"}); }},
    {"a node that makes an input", duplicate_value, "x",
     [](proto& m) { add_node(graph(m), "Neg", {"w"}, {"x"}); }},
    {"two values of one name in a body", duplicate_value, "r",
     [](proto& m) { add_node(branch(m), "Neg", {"y"}, {"r"}); }},
    {"a body that returns what nobody makes", missing_value, "ghost",
     [](proto& m) { branch(m).mutable_output(0)->set_name("ghost"); }},
    {"a body's value read outside", missing_value, "r", [](proto& m) { nth_node(m, 2).set_input(0, "r"); }},
    {"a function that reads the graph", missing_value, "w",
     [](proto& m) { m.mutable_functions(0)->mutable_node(0)->set_input(0, "w"); }},
    {"a body that needs what its node makes", cycle, "z",
     [](proto& m) { branch(m).mutable_node(0)->set_input(0, "z"); }},
    {"a cycle through a body", cycle, "out",
     [](proto& m) { branch(m).mutable_node(0)->set_input(0, "out"); }},
    {"a body out of order", order, "late",
     [](proto& m) {
       branch(m).mutable_node(0)->set_input(0, "late"), add_node(branch(m), "Neg", {"y"}, {"late"});
     }},
    {"a function out of order", order, "late",
     [](proto& m) {
       auto& f = *m.mutable_functions(0);
       f.mutable_node(0)->set_input(0, "late");
       auto& n = *f.add_node();
       n.set_op_type("Neg");
       n.add_input("a");
       n.add_output("late");
     }},
    {"a node without an operator in a body", cleave::onnx::fault_kind::node, "r",
     [](proto& m) { branch(m).mutable_node(0)->clear_op_type(); }},
    {"a domain that only a body uses", operation, "other",
     [](proto& m) { branch(m).mutable_node(0)->set_domain("other"); }},
    {"a domain that only a function uses", operation, "other",
     [](proto& m) { m.mutable_functions(0)->mutable_node(0)->set_domain("other"); }},
    {"an attribute without a name", attribute, "adder",
     [](proto& m) { nth_node(m, 0).add_attribute()->set_i(1); }},
    {"two attributes of one name", attribute, "axis",
     [](proto& m) {
       for (int i = 0; i < 2; ++i) nth_node(m, 0).add_attribute()->set_name("axis");
     }},
    {"a graph that claims to be an int", attribute, "then_branch",
     [](proto& m) { nth_node(m, 1).mutable_attribute(0)->set_type(::onnx::AttributeProto::INT); }},
    {"an untyped attribute with a tensor and a graph", attribute, "both",
     [](proto& m) {
       auto& a = *nth_node(m, 0).add_attribute();
       a.set_name("both");
       a.mutable_t();
       a.mutable_g();
     }},
    {"a tensor attribute without a tensor", attribute, "value",
     [](proto& m) {
       nth_node(m, 0).add_attribute()->set_name("value");
       nth_node(m, 0).mutable_attribute(0)->set_type(::onnx::AttributeProto::TENSOR);
     }},
    {"a function's argument outside functions", attribute, "axis",
     [](proto& m) {
       nth_node(m, 0).add_attribute()->set_name("axis");
       nth_node(m, 0).mutable_attribute(0)->set_ref_attr_name("axis");
     }},
    {"an If whose branch takes a value", subgraph, "then_branch",
     [](proto& m) { branch(m).add_input()->set_name("extra"); }},
    {"an If whose branch returns two", subgraph, "then_branch",
     [](proto& m) { branch(m).add_output()->set_name("y"); }},
    {"a Loop without a body", subgraph, "l", [](proto& m) { add_node(graph(m), "Loop", {"x", "c"}, {"l"}); }},
    {"a Loop whose body returns too little", subgraph, "l",
     [](proto& m) {
       auto& body = add_body(add_node(graph(m), "Loop", {"", "c"}, {"l"}), "body");
       for (auto const* in : {"i", "go"}) body.add_input()->set_name(in);
       body.add_output()->set_name("go");
     }},
    {"a Scan without a body", subgraph, "s", [](proto& m) { add_node(graph(m), "Scan", {"x"}, {"s"}); }},
    {"a tensor without a type", type, "w", [](proto& m) { weight(m).clear_data_type(); }},
    {"data in a field of another type", type, "w",
     [](proto& m) { weight(m).set_data_type(::onnx::TensorProto::INT64); }},
    {"raw strings", type, "w",
     [](proto& m) {
       weight(m).clear_float_data(), weight(m).set_raw_data("ab"),
           weight(m).set_data_type(::onnx::TensorProto::STRING);
     }},
    {"too few numbers", size, "w", [](proto& m) { weight(m).set_dims(0, 3); }},
    {"too many numbers", size, "w", [](proto& m) { weight(m).add_float_data(3); }},
    {"numbers for no elements", size, "w", [](proto& m) { weight(m).set_dims(0, 0); }},
    {"half a complex number", type, "w",
     [](proto& m) { weight(m).set_data_type(::onnx::TensorProto::COMPLEX64), weight(m).add_float_data(3); }},
    {"dimensions whose product overflows", size, "w",
     [](proto& m) {
       for (int i = 0; i < 9; ++i) weight(m).add_dims(std::int64_t{1} << 20);
     }},
    {"data inside and outside", size, "w",
     [](proto& m) { weight(m).set_data_location(::onnx::TensorProto::EXTERNAL); }},
    {"external data nowhere", external, "w", [](proto& m) { add_external(m, "offset", "0"); }},
    {"external data in the parent folder", external, "w",
     [](proto& m) { add_external(m, "location", "a/../../b"); }},
    {"external data behind backslashes", external, "w",
     [](proto& m) { add_external(m, "location", "a\\..\\..\\b"); }},
    {"external data on a drive", external, "w", [](proto& m) { add_external(m, "location", "C:b"); }},
    {"external data at two places", external, "w",
     [](proto& m) { add_external(m, "location", "a"), add_external(m, "location", "b"); }},
    {"external data with two offsets", external, "w",
     [](proto& m) {
       add_external(m, "location", "a"), add_external(m, "offset", "0"), add_external(m, "offset", "8");
     }},
    {"external data with two lengths", external, "w",
     [](proto& m) {
       add_external(m, "location", "a"), add_external(m, "length", "8"), add_external(m, "length", "8");
     }},
    {"external data at a negative offset", external, "w",
     [](proto& m) { add_external(m, "location", "a"), add_external(m, "offset", "-1"); }},
    {"an input of an unknown element type", type, "x", [](proto& m) { input_type(m).set_elem_type(99); }},
    {"an input whose size overflows", shape, "x",
     [](proto& m) {
       for (int i = 0; i < 4; ++i) input_type(m).mutable_shape()->add_dim()->set_dim_value(1 << 30);
     }},
    {"a sparse initializer whose parts disagree", shape, "sp",
     [](proto& m) {
       auto& s = *graph(m).add_sparse_initializer();
       s.add_dims(4);
       auto& values = *s.mutable_values();
       values.set_name("sp");
       values.set_data_type(::onnx::TensorProto::FLOAT);
       values.add_dims(1);
       values.add_float_data(1);
       s.mutable_indices()->set_data_type(::onnx::TensorProto::INT64);
       s.mutable_indices()->add_dims(0);
     }},
    {"a function twice", function, "twice", [](proto& m) { *m.add_functions() = m.functions(0); }},
    {"a function in ONNX's own domain", function, "twice",
     [](proto& m) { m.mutable_functions(0)->set_domain("ai.onnx"); }},
    {"a function without a name", function, "", [](proto& m) { m.mutable_functions(0)->clear_name(); }},
    {"a function whose output nobody makes", missing_value, "ghost",
     [](proto& m) { m.mutable_functions(0)->set_output(0, "ghost"); }},
};

/// A model of `levels` functions; each one calls the next `calls` times.
::onnx::ModelProto calling(int levels, int calls) {
  auto m = sound_model();
  m.clear_functions();
  for (int i = 0; i < levels; ++i) {
    auto& f = *m.add_functions();
    f.set_domain("acme");
    f.set_name(i == 0 ? "twice" : "f" + std::to_string(i));
    f.add_input("v0");
    f.add_output("v" + std::to_string(calls));
    for (int j = 0; j < calls; ++j) {
      auto& n = *f.add_node();
      n.set_domain("acme");
      n.set_op_type(i + 1 < levels ? "f" + std::to_string(i + 1) : "Leaf");
      n.add_input("v" + std::to_string(j));
      n.add_output("v" + std::to_string(j + 1));
    }
  }
  return m;
}

/// A model of `levels` nested bodies; the innermost one reads a value of the graph.
::onnx::ModelProto nested_model(std::size_t levels) {
  ::onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(13);
  auto* g = m.mutable_graph();
  g->add_input()->set_name("x");
  for (std::size_t i = 0; i < levels; ++i) {
    auto const made = "v" + std::to_string(i);
    g->add_output()->set_name(made);
    g = &add_body(add_node(*g, "Any", {}, {made}), "body");
  }
  add_node(*g, "Neg", {"x"}, {"leaf"});
  g->add_output()->set_name("leaf");
  return m;
}

/// Reads bytes with all checks. Returns whether they are rejected with cleave::onnx::error; any other
/// exception fails the test.
bool is_refused(std::string const& bytes) {
  try {
    auto const model = cleave::onnx::parse(bytes);
    cleave::onnx::check(model);
    cleave::onnx::graph const g(model);
    snapshot_of(g);
    snapshot_of(
        cleave::onnx::graph(model, {.live_only = false, .constants = cleave::onnx::constants::as_nodes}));
    return false;
  } catch (cleave::onnx::error const&) {
    return true;
  }
}

}  // namespace

TEST_CASE("onnx::check: each malformed file ends as recorded, within 1 s and 256 MiB and without a signal") {
  auto const folder = model_folder().parent_path() / "malformed";
  std::ifstream in(folder / "malformed.json");
  auto const cases = nlohmann::json::parse(in).at("cases");
  REQUIRE(cases.size() == 49);
  for (auto const& c : cases) {
    std::string const file = c["file"];
    CAPTURE(file);
    auto const report = in_child([&]() -> std::string {
      try {
        auto const model = load_onnx(folder / file);
        cleave::onnx::graph const g(model);
        return "accepted " + std::to_string(snapshot_of(g).nodes());
      } catch (cleave::onnx::error const& e) {
        return std::string(onnx_fault_word(e.witness.kind)) + " " + e.what();
      }
    });
    CHECK(report.signal == 0);
    CHECK(report.exit == 0);
    if (!sanitized) CHECK(report.to_stderr == "");
    if (bounded) {
      CHECK(report.seconds < 1.0);
      CHECK(report.peak_bytes < std::size_t{256} << 20);
    }
    std::string const expect = c["expect"], name = c["name"];
    bool const accepted = report.said.starts_with("accepted ");
    CHECK(accepted == (expect == "accept" || (expect == "either" && !refused_by_choice.contains(name))));
    if (accepted) continue;
    CHECK(report.said.starts_with(std::string(c["class"]) + " "));
    CHECK(report.said.find(file + ": ") != std::string::npos);
    for (std::string const mentioned : c["message_names"])
      CHECK(report.said.find(printable(mentioned)) != std::string::npos);
  }
}

TEST_CASE("find_onnx_fault: accepts all real models") {
  for (auto const& file : model_files(giants::included)) {
    CAPTURE(file);
    auto const model = read_model(file);
    auto const fault = find_onnx_fault(model);
    CHECK_MESSAGE(!fault, (fault ? fault->message : ""));
  }
}

TEST_CASE("find_onnx_fault: finds each corruption of a valid model, with its kind and a name") {
  auto const sound = sound_model();
  REQUIRE(!find_onnx_fault(sound));
  REQUIRE(cleave::onnx::graph(sound).nodes().size() == 3);
  for (auto const& s : spoilings) {
    CAPTURE(std::string(s.what));
    auto model = sound;
    s.apply(model);
    auto const fault = find_onnx_fault(model);
    CHECK(fault);
    if (!fault) continue;
    CHECK(onnx_fault_word(fault->kind) == onnx_fault_word(s.kind));
    CHECK(fault->message.find(s.name) != std::string::npos);
    CHECK_THROWS_AS(cleave::onnx::check(model), cleave::onnx::error);
  }
}

TEST_CASE("find_onnx_fault: accepts odd but legal models") {
  using odd = void (*)(proto&);
  odd const oddities[] = {
      [](proto& m) { *m.add_opset_import() = m.opset_import(1); },
      [](proto& m) { graph(m).add_output()->set_name("out"); },
      [](proto& m) { graph(m).add_output()->set_name("w"); },
      [](proto& m) { weight(m).clear_float_data(), weight(m).set_raw_data("12345678"); },
      [](proto& m) { weight(m).clear_float_data(), weight(m).set_dims(0, 0); },
      [](proto& m) { add_external(m, "location", "weights/..data/w.bin"); },
      [](proto& m) { nth_node(m, 0).add_attribute()->set_name("untyped"); },
      [](proto& m) { nth_node(m, 0).set_input(1, ""); },
      [](proto& m) { add_node(graph(m), "Neg", {"x"}, {""}), add_node(graph(m), "Neg", {"x"}, {""}); },
      [](proto& m) { graph(m).mutable_node()->SwapElements(0, 2); },
      [](proto& m) { input_type(m).mutable_shape()->add_dim()->set_dim_value(-1); },
      [](proto& m) {
        branch(m).mutable_node(0)->set_output(0, "w"), branch(m).mutable_output(0)->set_name("w");
      },
      [](proto& m) { nth_node(m, 0).set_op_type("Frobnicate"); },
      [](proto& m) { graph(m).clear_node(), graph(m).clear_output(), m.clear_functions(); },
  };
  for (auto const& apply : oddities) {
    CAPTURE(&apply - oddities);
    auto model = sound_model();
    apply(model);
    auto const fault = find_onnx_fault(model);
    CHECK_MESSAGE(!fault, (fault ? fault->message : ""));
    CHECK(!is_refused(model.SerializeAsString()));
  }
}

TEST_CASE("find_onnx_fault: rejects calls that unfold to too many nodes or too deep") {
  CHECK(!find_onnx_fault(calling(10, 2)));
  CHECK(find_onnx_fault(calling(60, 2))->kind == function);  // 2^60 nodes
  CHECK(find_onnx_fault(calling(10, 2), {.max_inlined_nodes = 1000})->kind == function);
  CHECK(!find_onnx_fault(calling(60, 1)));
  CHECK(find_onnx_fault(calling(2000, 1))->kind == function);  // too deep for inference
}

TEST_CASE("find_onnx_fault: names functions that call each other in a cycle") {
  auto model = calling(4, 1);
  model.mutable_functions(3)->mutable_node(0)->set_op_type("f1");
  auto const fault = find_onnx_fault(model);
  REQUIRE(fault);
  CHECK(fault->kind == function);
  auto found = fault->names;
  std::ranges::sort(found);
  CHECK(found == strings{"f1", "f2", "f3"});
}

TEST_CASE(
    "find_onnx_fault: walks deeply nested bodies without recursion, and rejects them beyond the limit") {
  CHECK(!find_onnx_fault(nested_model(33)));
  auto const deep = nested_model(2000);
  CHECK(find_onnx_fault(deep)->kind == depth);
  CHECK(!find_onnx_fault(deep, {.max_depth = 2000}));
  auto const scopes = read_onnx_scopes(deep.graph(), {.max_depth = 2000});
  REQUIRE(!scopes.fault);
  CHECK(scopes.reads[0].size() == 1);
  CHECK(scopes.values[scopes.reads[0][0]].name == "x");
}

TEST_CASE("find_onnx_fault: names all values of a cycle, in a message of bounded length") {
  for (int const length : {1, 2, 7, 20'000}) {
    CAPTURE(length);
    ::onnx::ModelProto m;
    m.set_ir_version(8);
    m.add_opset_import()->set_version(13);
    auto& g = *m.mutable_graph();
    std::set<std::string> all;
    for (int i = 0; i < length; ++i) {
      auto const made = "v" + std::to_string(i);
      all.insert(made);
      add_node(g, "Neg", {"v" + std::to_string((i + length - 1) % length)}, {made});
      add_node(g, "Neg", {made}, {"side" + std::to_string(i)});
    }
    auto const fault = find_onnx_fault(m);
    REQUIRE(fault);
    CHECK(fault->kind == cycle);
    CHECK(std::set<std::string>(fault->names.begin(), fault->names.end()) == all);
    CHECK(fault->message.size() < 1000);
  }
}

TEST_CASE("find_onnx_fault: returns names of any bytes unchanged, and keeps the message printable") {
  auto model = sound_model();
  std::string const evil = "\x1b[31m\n\xff" + std::string(3000, 'a');
  nth_node(model, 0).set_input(0, evil);
  auto const fault = find_onnx_fault(model);
  REQUIRE(fault);
  CHECK(fault->names == strings{evil});
  CHECK(fault->message.size() < 1000);
  CHECK(std::ranges::none_of(fault->message, [](char c) { return c == '\n' || c == '\x1b' || c == '\xff'; }));
}

TEST_CASE("stays_in_folder: accepts only relative paths that do not go up") {
  for (auto const* good : {"w.bin", "a/b", "a..b", "...", ".hidden", "a/./b"}) CHECK(stays_in_folder(good));
  for (auto const* bad : {"", "/a", "\\a", "..", "a/..", "../a", "a/../b", "a\\..", "C:\\a", "c:a"})
    CHECK(!stays_in_folder(bad));
  CHECK(!stays_in_folder(std::string_view("a\0b", 3)));
}

TEST_CASE("onnx::check: accepts or rejects corrupted models without any other failure") {
  std::size_t const rounds = sanitized ? 2'000 : 20'000;
  char const* const small[] = {"if_captures", "functions", "script_if_loop", "optional_io",
                               "initializers_as_inputs"};
  rng random(7);
  std::size_t refused = 0;
  std::vector<std::string> originals;
  for (auto const* name : small) originals.push_back(gunzip(model_file(name)));
  for (std::size_t round = 0; round < rounds; ++round) {
    auto bytes = originals[round % originals.size()];
    if (random.one_in(8))
      bytes.resize(random.below(bytes.size()));
    else
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    refused += is_refused(bytes);
  }
  CHECK(refused > rounds / 4);
  CHECK(refused < rounds);
}
