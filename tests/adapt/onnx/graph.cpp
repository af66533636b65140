// SPDX-License-Identifier: MIT
#include "cleave/adapt/onnx/graph.hpp"

#include <doctest/doctest.h>

#include <set>

#include "cleave/adapt/onnx/load.hpp"
#include "cleave/split/split.hpp"
#include "support/gunzip.hpp"
#include "support/model_corpus.hpp"

using namespace cleave;

using namespace cleave::detail;
using namespace cleave::testing;

namespace {

using strings = std::vector<std::string>;
cleave::onnx::options const as_in_file{.live_only = false, .constants = cleave::onnx::constants::as_nodes};

template <class Values>
strings names(cleave::onnx::graph const& g, Values const& values) {
  strings all;
  for (auto const v : values) all.emplace_back(g.name_of(v));
  return all;
}

template <class Values>
std::set<std::string> name_set(cleave::onnx::graph const& g, Values const& values) {
  auto const all = names(g, values);
  return {all.begin(), all.end()};
}

/// The distinct readers of each value, computed from the scopes.
std::vector<std::set<cleave::onnx::graph::node>> readers(cleave::onnx::graph const& g) {
  std::vector<std::set<cleave::onnx::graph::node>> of(g.values());
  for (cleave::onnx::graph::node n = 0; n < g.file_nodes(); ++n)
    for (auto const v : g.reads(n)) of[v].insert(n);
  return of;
}

/// Compares with a recorded list of names, or with their number if the list was too long to record.
bool is_list(nlohmann::json const& recorded, strings const& found) {
  return recorded.is_number() ? recorded == found.size() : recorded == nlohmann::json(found);
}

::onnx::NodeProto& add_node(::onnx::GraphProto& g, std::string const& op, strings const& in,
                            strings const& out) {
  auto& n = *g.add_node();
  n.set_op_type(op);
  for (auto const& name : in) n.add_input(name);
  for (auto const& name : out) n.add_output(name);
  return n;
}

::onnx::ModelProto empty_model() {
  ::onnx::ModelProto m;
  m.set_ir_version(8);
  m.add_opset_import()->set_version(13);
  return m;
}

void add_scalar(::onnx::GraphProto& g, std::string const& name) {
  auto& t = *g.add_initializer();
  t.set_name(name);
  t.set_data_type(::onnx::TensorProto::FLOAT);
  t.add_float_data(1);
}

// It refers to its model, so it cannot be made of a temporary one.
static_assert(std::constructible_from<cleave::onnx::graph, ::onnx::ModelProto const&> &&
              !std::constructible_from<cleave::onnx::graph, ::onnx::ModelProto>);

}  // namespace

TEST_CASE("onnx::graph: matches the counts recorded for each model") {
  auto const files = model_files(giants::included);
  REQUIRE(files.size() == (all_models() ? 49 : 49 - std::size(unsanitized_models)));
  for (auto const& file : files) {
    CAPTURE(file);
    auto const want = sidecar(model_name(file));
    auto const bytes = gunzip(file);
    auto const model = cleave::onnx::parse(bytes);
    cleave::onnx::check(model);
    cleave::onnx::graph const g(model, as_in_file);
    CHECK(want["bytes"] == bytes.size());
    CHECK(want["nodes"] == g.nodes().size());
    CHECK(want.value("nodes_with_subgraphs", g.file_nodes()) == g.scopes().nodes.size());
    CHECK(want["initializers"] == g.state().size());

    strings inputs;
    std::set<std::string> defaults;
    for (auto const& i : want["graph_inputs"])
      i.value("has_default", false) ? void(defaults.insert(i["name"])) : inputs.push_back(i["name"]);
    CHECK(names(g, g.inputs()) == inputs);
    CHECK(want["graph_outputs"] == nlohmann::json(names(g, g.outputs())));
    std::set<std::string> overridable;
    for (auto const v : g.state())
      if (g.overridable(v)) overridable.emplace(g.name_of(v));
    CHECK(overridable == (want["ir_version"] >= 4 ? defaults : std::set<std::string>()));

    auto const read_by = readers(g);
    std::size_t edges = 0, shared = 0;
    auto const n = g.file_nodes();
    std::vector<long> crossing(n + 2);
    std::set<cleave::onnx::graph::value> const returned(g.outputs().begin(), g.outputs().end());
    for (cleave::onnx::graph::value v = 0; v < g.values(); ++v) {
      auto const by = g.producer(v);
      if (g.scopes().values[v].scope != 0) continue;
      if (by == none<cleave::onnx::graph::node>) {
        shared += g.is_state(v) && read_by[v].size() > 1;
        continue;
      }
      edges += read_by[v].size();
      auto const last = returned.contains(v) ? n : read_by[v].empty() ? by : *read_by[v].rbegin();
      ++crossing[by + 1];
      --crossing[std::min<std::size_t>(last + 1, n + 1)];
    }
    CHECK(want["edges"] == edges);
    CHECK(want["initializers_with_several_readers"] == shared);
    long single = 0, widest = 0, now = 0;
    for (std::size_t cut = 1; cut < n; ++cut) {
      now += crossing[cut];
      single += now == 1;
      widest = std::max(widest, now);
    }
    CHECK(want["single_value_cuts"] == single);
    CHECK(want["widest_cut"] == widest);
  }
}

TEST_CASE("onnx::graph: stages of equal slices have the recorded interfaces, for each model") {
  for (auto const& file : model_files(giants::included)) {
    auto const recorded = sidecar(model_name(file));
    auto const model = read_model(file);
    cleave::onnx::graph const g(model, as_in_file);
    auto const count = g.nodes().size();
    std::size_t compared = 0;
    for (auto const& [key, want] : recorded["reference_split"].items()) {
      if (key == "verified") continue;
      std::uint32_t const k = static_cast<std::uint32_t>(std::stoul(key));
      CAPTURE(file);
      CAPTURE(k);
      partition p{{}, k};
      for (std::size_t i = 0; i < count; ++i)
        p.of.push_back(part_id{static_cast<std::uint32_t>(i * k / count)});
      auto const stages = split(g, p);
      REQUIRE(want.size() == stages.size());
      for (std::uint32_t i = 0; i < k; ++i) {
        CAPTURE(i);
        auto const stage = stages[stage_id{i}];
        CHECK(want[i]["nodes"] == stage.nodes.size());
        CHECK(is_list(want[i]["inputs"], names(g, stage.inputs)));
        CHECK(is_list(want[i]["outputs"], names(g, stage.outputs)));
        CHECK(is_list(want[i]["initializers"], names(g, stage.state)));
        ++compared;
      }
    }
    CHECK(compared >= 4);
  }
}

TEST_CASE(
    "onnx::graph: by default, no model has constant or dead nodes, and nodes that rename weights are "
    "copied") {
  for (auto const& file : model_files(giants::included)) {
    CAPTURE(file);
    auto const model = read_model(file);
    cleave::onnx::graph const g(model);
    auto const s = snapshot_of(g);
    std::set<cleave::onnx::graph::value> const returned(g.outputs().begin(), g.outputs().end());
    for (std::uint32_t n = 0; n < s.nodes(); ++n) {
      auto const node = s.node[n];
      bool const given = returned.contains(g.results(node)[0]);
      CHECK((given || g.proto(node).op_type() != "Constant"));
      if (g.proto(node).op_type() == "Identity" && g.is_constant(g.operands(node)[0]))
        CHECK((g.replicable(node) && s.replicable[n]));
      bool needed = false;
      for (auto const v : s.results[n]) needed |= !s.users[v].empty() || returned.contains(s.value[v]);
      CHECK(needed);
    }
    for (auto const v : g.state())
      CHECK((g.tensor(v) != nullptr && g.producer(v) == none<cleave::onnx::graph::node>));
    CHECK(std::ranges::find(s.from, source::constant) == s.from.end());
  }
}

TEST_CASE("onnx::graph: weights renamed by Identity share the storage of the original weight") {
  for (auto const* name : {"albert", "resnet18_fresh_bn"}) {
    CAPTURE(std::string(name));
    auto const model = testing::model(name);
    cleave::onnx::graph const g(model), plain(model, as_in_file);
    std::size_t renamed = 0;
    for (cleave::onnx::graph::value v = 0; v < g.values(); ++v) {
      auto const root = g.storage(v);
      CHECK(g.storage(root) == root);
      if (root == v) continue;
      ++renamed;
      CHECK((g.tensor(v) == nullptr && g.tensor(root) != nullptr));
      auto const node = g.producer(v);
      REQUIRE(node != none<cleave::onnx::graph::node>);
      CHECK(g.replicable(node));
      CHECK(g.proto(node).op_type() == "Identity");
      CHECK(g.storage(g.operands(node)[0]) == root);
    }
    CHECK(renamed >= 16);
    for (cleave::onnx::graph::value v = 0; v < plain.values(); ++v) CHECK(plain.storage(v) == v);
  }
}

TEST_CASE("onnx::graph: omits dead nodes unless all nodes are requested") {
  auto const model = testing::model("dead_code");
  cleave::onnx::graph const live(model), all(model, as_in_file);
  CHECK(all.nodes().size() == 7);
  CHECK(live.nodes().size() == 3);
}

TEST_CASE("onnx::graph: a node is live if a live body captures its result") {
  auto const model = testing::model("if_captures");
  cleave::onnx::graph const g(model);
  CHECK(g.nodes().size() == 8);
  auto const far = g.find_value("far");
  REQUIRE(far);
  CHECK(readers(g)[*far].size() > 1);
}

TEST_CASE("onnx::graph: a name refers to the value of the innermost scope that makes it") {
  auto model = empty_model();
  auto& g = *model.mutable_graph();
  g.add_input()->set_name("c");
  auto& choice = add_node(g, "If", {"c"}, {"y"});
  for (auto const* branch : {"then_branch", "else_branch"}) {
    auto& a = *choice.add_attribute();
    a.set_name(branch);
    a.set_type(::onnx::AttributeProto::GRAPH);
    add_node(*a.mutable_g(), "Neg", {"c"}, {"t"});
    add_node(*a.mutable_g(), "Neg", {"t"}, {"u"});
    a.mutable_g()->add_output()->set_name("u");
  }
  add_node(g, "Neg", {"y"}, {"t"});
  g.add_output()->set_name("t");
  cleave::onnx::check(model);
  cleave::onnx::graph const read(model);
  CHECK(read.nodes().size() == 2);
  CHECK(names(read, captures(read, 0)) == strings{"c"});
  auto const inner = read.regions(0);
  REQUIRE(inner.size() == 2);
  CHECK(read.yields(inner[0])[0] != read.yields(inner[1])[0]);
  CHECK(snapshot_of(read).operands[0].size() == 2);  // operand c, and captured value c
}

TEST_CASE("onnx::graph: sorts nodes topologically, the first ready node of the file first") {
  auto model = empty_model();
  auto& g = *model.mutable_graph();
  g.add_input()->set_name("x");
  add_node(g, "Neg", {"b"}, {"d"});
  add_node(g, "Neg", {"x"}, {"a"});
  add_node(g, "Neg", {"a"}, {"b"});
  add_node(g, "Neg", {"x"}, {"c"});
  for (auto const* name : {"c", "d"}) g.add_output()->set_name(name);
  cleave::onnx::check(model);
  cleave::onnx::graph const read(model);
  CHECK(std::vector<cleave::onnx::graph::node>(read.nodes().begin(), read.nodes().end()) ==
        std::vector<cleave::onnx::graph::node>{1, 2, 0, 3});
  CHECK(snapshot_of(read).nodes() == 4);
}

TEST_CASE(
    "onnx::graph: a constant that is an output stays a node, as does Identity of an overridable default") {
  auto model = empty_model();
  auto& g = *model.mutable_graph();
  g.add_input()->set_name("w");
  add_scalar(g, "w");
  add_scalar(g, "v");
  auto& k = *add_node(g, "Constant", {}, {"k"}).add_attribute();
  k.set_name("value_ints");
  k.set_type(::onnx::AttributeProto::INTS);
  k.add_ints(3);
  k.add_ints(4);
  add_node(g, "Identity", {"k"}, {"k2"});
  add_node(g, "Identity", {"w"}, {"w2"});
  add_node(g, "Identity", {"v"}, {"v2"});
  add_node(g, "Identity", {"v2"}, {"v3"});
  add_node(g, "Concat", {"w2", "v3", "k"}, {"y"}).set_domain("ai.onnx");
  for (auto const* name : {"y", "k2"}) g.add_output()->set_name(name);
  cleave::onnx::graph const read(model);
  using nodes = std::vector<cleave::onnx::graph::node>;
  CHECK(nodes(read.nodes().begin(), read.nodes().end()) == nodes{1, 2, 3, 4, 5});
  nodes copied;
  for (auto const n : read.nodes())
    if (read.replicable(n)) copied.push_back(n);
  CHECK(copied == nodes{1, 3, 4});
  CHECK(name_set(read, read.state()) == std::set<std::string>{"w", "v", "k"});
  CHECK(names(read, read.inputs()).empty());
  CHECK(read.overridable(*read.find_value("w")));
  CHECK(!read.overridable(*read.find_value("v")));
  CHECK(read.storage(*read.find_value("v3")) == *read.find_value("v"));
  auto const* data = read.tensor(*read.find_value("k"));
  REQUIRE(data != nullptr);
  CHECK((data->dims_size() == 1 && data->dims(0) == 2 && data->int64_data(1) == 4));
  model.set_ir_version(3);
  cleave::onnx::graph const old(model);
  CHECK(!old.overridable(*old.find_value("w")));
  CHECK(old.replicable(2));
}

TEST_CASE("onnx::graph: a snapshot reads the costs that price() sets") {
  auto const model = testing::model("same_tensor_twice");
  cleave::onnx::graph g(model);
  CHECK(snapshot_of(g).weight[3] == 1.0);
  std::vector<double> weight(g.file_nodes());
  std::vector<std::size_t> bytes(g.values());
  for (std::size_t n = 0; n < weight.size(); ++n) weight[n] = static_cast<double>(n) + 0.5;
  for (std::size_t v = 0; v < bytes.size(); ++v) bytes[v] = 10 * v;
  g.price(weight, bytes);
  auto const s = snapshot_of(g);
  for (std::uint32_t n = 0; n < s.nodes(); ++n) CHECK(s.weight[n] == s.node[n] + 0.5);
  for (std::uint32_t v = 0; v < s.values(); ++v) CHECK(s.bytes[v] == 10 * s.value[v]);
}

TEST_CASE("onnx::graph: names a node by its name, or by its operator if it has none") {
  auto const model = testing::model("names");
  cleave::onnx::graph const g(model);
  std::size_t unnamed = 0;
  for (auto const n : g.nodes()) {
    unnamed += g.proto(n).name().empty();
    CHECK(g.name(n) == (g.proto(n).name().empty() ? g.proto(n).op_type() : g.proto(n).name()));
  }
  CHECK(unnamed > 0);
}
