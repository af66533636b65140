// SPDX-License-Identifier: MIT
// Splits a language model whose first and last stage share a weight. Either each stage keeps a copy, or the
// first stage sends the weight.
#include <cleave/pipe.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using cleave::module_graph;
using cleave::node_kind;
using position = module_graph::position;
using attribute = cleave::module_attribute::kind;

/// Builds a program node by node.
struct writer {
  module_graph g;

  position node(node_kind kind, std::string const& target, std::vector<position> const& reads = {},
                std::string const& module = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.target = n.name = target;
    for (char& c : n.name)
      if (c == '.') c = '_';
    for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
    if (!module.empty()) n.metadata = {{"scope", {module}}};  // the module call around the node
    return g.add(std::move(n));
  }
  /// Registers a tensor; tensors with equal storages share memory.
  void tensor(std::string const& path, std::string const& storage, attribute what = attribute::parameter) {
    g.add_attribute({path, what, storage, {}, {}, {}});
  }
  position read(std::string const& path) { return node(node_kind::get_attr, path); }
};

module_graph language_model() {
  writer w;
  // [model]
  w.tensor("embed.weight", "table");
  w.tensor("mix.weight", "");
  w.tensor("head.weight", "table");  // the same memory under another name
  w.tensor("scale", "", attribute::buffer);
  w.tensor("spare.weight", "");  // registered, never read
  // [model]
  auto const ids = w.node(node_kind::placeholder, "ids");
  auto const scale = w.read("scale");
  auto x = w.node(node_kind::call_function, "embedding", {w.read("embed.weight"), ids}, "embed");
  x = w.node(node_kind::call_function, "mul", {x, scale});
  w.node(node_kind::call_function, "pipe_split");
  x = w.node(node_kind::call_function, "linear", {x, w.read("mix.weight")}, "mix");
  w.node(node_kind::call_function, "pipe_split");
  x = w.node(node_kind::call_function, "linear_1", {x, w.read("head.weight")}, "head");
  x = w.node(node_kind::call_function, "div", {x, scale});
  w.node(node_kind::output, "output", {x});
  return w.g;
}

void print(cleave::module_pipe const& pipe) {
  for (std::uint32_t i = 0; i < pipe.paths.size(); ++i) {
    std::cout << "  " << pipe.paths[i] << '(';
    auto const& stage = pipe.stage(cleave::stage_id{i});
    for (auto const v : stage.inputs())
      std::cout << (v == stage.inputs().front() ? "" : ", ") << stage[v].name;
    std::cout << ") holds";
    for (auto const& held : pipe.state.stages[i]) std::cout << ' ' << pipe.model.tensors[held.tensor].name;
    std::cout << '\n';
  }
  // [ties]
  for (auto const& tie : pipe.state.replicas) {  // after the backward pass: sum these gradients
    std::cout << "  tie:";
    for (auto const& copy : tie.members)
      std::cout << ' ' << stage_text(copy.stage) << ": " << copy.name << ';';
    std::cout << '\n';
  }
  // [ties]
  for (auto const& sent : pipe.state.sent) {
    std::cout << "  " << stage_text(sent.owner) << " sends " << pipe.model.tensors[sent.tensor].name << " to";
    for (auto const to : sent.to) std::cout << ' ' << stage_text(to);
    std::cout << '\n';
  }
  for (auto const t : pipe.state.unused) std::cout << "  unused: " << pipe.model.tensors[t].name << '\n';
}

int main() {
  auto const model = language_model();
  std::cout << "replicated:\n";
  print(cleave::make_module_pipe(model));

  std::cout << "transmitted, but for the scale:\n";
  // [transmit]
  using enum cleave::shared_state;
  print(cleave::make_module_pipe(model, {.state = {.shared = transmit, .by_name = {{"scale", replicate}}}}));
  // [transmit]

  try {
    cleave::make_module_pipe(model, {.state = {.shared = refuse}});
  } catch (cleave::state_error const& e) {
    auto const& f = e.witness;
    std::cout << code_of(f.what) << ": " << f.name << " in " << stage_text(f.stage) << ", " << f.other_name
              << " in " << stage_text(f.other) << '\n';
  }
}

// It prints:
//
//   replicated:
//     stage_0(ids) holds embed.weight scale
//     stage_1(mul) holds mix.weight
//     stage_2(linear) holds head.weight scale
//     tie: stage 0: embed.weight; stage 2: head.weight;
//     tie: stage 0: scale; stage 2: scale;
//     unused: spare.weight
//   transmitted, but for the scale:
//     stage_0(ids) holds embed.weight scale head.weight
//     stage_1(mul) holds mix.weight
//     stage_2(linear, embed_weight) holds scale
//     tie: stage 0: scale; stage 2: scale;
//     stage 0 sends embed.weight to stage 2
//     unused: spare.weight
//   state-shared: embed.weight in stage 0, head.weight in stage 2
