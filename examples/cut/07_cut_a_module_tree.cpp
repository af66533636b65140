// SPDX-License-Identifier: MIT
// Cuts a tree of modules, like BERT, after named modules at any depth. The example prints the inputs of each
// stage, including values that it passes on, and the weights with two names.
#include <cleave/backward.hpp>
#include <cleave/modules.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using cleave::module_graph;
using kind = cleave::node_kind;
using position = module_graph::position;

/// Builds one graph of the tree, call by call.
struct level {
  module_graph g;

  position node(kind what, std::string const& target, std::vector<position> const& reads = {}) {
    cleave::module_node n;
    n.kind = what;
    n.target = target;
    n.name = target;
    for (char& c : n.name)
      if (c == '.') c = '_';
    for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
    return g.add(std::move(n));
  }
  /// Calls a module. A module with a body is a level of the tree.
  position call(std::string const& path, std::vector<position> const& reads, level const* inside = nullptr) {
    cleave::module_attribute a{path, cleave::module_attribute::kind::module, {}, {}, {}, {}};
    if (inside) a.body.push_back(inside->g);
    g.add_attribute(std::move(a));
    return node(kind::call_module, path, reads);
  }
  void weight(std::string const& path, std::string const& storage) {
    g.add_attribute({path, cleave::module_attribute::kind::parameter, storage, {}, {}, {}});
  }
};

level encoder(int layers) {
  level layer, all;
  auto const h = layer.node(kind::placeholder, "hidden"), m = layer.node(kind::placeholder, "mask");
  auto const attention = layer.call("attention", {h, m});
  auto const feed = layer.call("feed", {layer.node(kind::call_function, "add", {attention, h})});
  layer.node(kind::output, "output", {feed});

  auto x = all.node(kind::placeholder, "hidden"), mask = all.node(kind::placeholder, "mask");
  for (int i = 0; i < layers; ++i) x = all.call("layer." + std::to_string(i), {x, mask}, &layer);
  all.node(kind::output, "output", {x});
  return all;
}

level bert() {
  level const inside = encoder(6);
  level model;
  auto const ids = model.node(kind::placeholder, "ids"), mask = model.node(kind::placeholder, "mask");
  auto const embedded = model.call("embeddings", {ids});
  model.weight("embeddings.word.weight", "words");
  auto const encoded = model.call("encoder", {embedded, mask}, &inside);
  auto const scores = model.call("head", {encoded, ids});
  model.weight("head.weight", "words");  // the same memory
  model.node(kind::output, "output", {scores});
  return model;
}

int main() {
  level const model = bert();
  // Cuts after a layer, inside another layer, and after the last layer.
  auto const cut =
      cleave::split_hierarchy(model.g, {"encoder.layer.1", "encoder.layer.3.attention", "encoder.layer.5"});
  auto const live = cleave::liveness_of(cut.outer);
  for (std::size_t k = 0; k < cut.stages.size(); ++k) {
    std::cout << cut.stages[k].path << "\n  runs";
    for (auto const& run : cut.stages[k].runs) std::cout << ' ' << cleave::label(cut.cut, run);
    std::cout << "\n  receives";
    for (auto const v : live.stages[k].receives) std::cout << ' ' << live.values[v].name;
    std::cout << '\n';
  }
  for (auto const& tie : cleave::ties_of(cleave::state_of_stages(cut.outer), cleave::tie_scope::stages)) {
    std::cout << "tied:";
    for (auto const& m : tie.members) std::cout << ' ' << m.name << " in " << stage_text(m.stage);
    std::cout << '\n';
  }
  try {
    cleave::split_hierarchy(model.g, {"encoder.layer.7"});
  } catch (cleave::module_cut_error const& e) {
    std::cout << "no " << e.witness.path << "; near it: " << e.witness.nearest.front() << '\n';
  }
}

// It prints:
//
//   submod_0
//     runs :embeddings encoder:layer_0 encoder:layer_1
//     receives ids mask
//   submod_1
//     runs encoder:layer_2 encoder.layer.3:attention
//     receives submod_0 mask ids
//   submod_2
//     runs encoder.layer.3:add encoder.layer.3:feed encoder:layer_4 encoder:layer_5
//     receives submod_1.0 submod_1.1 mask ids
//   submod_3
//     runs :head
//     receives submod_2 ids
//   tied: embeddings.word.weight in stage 0 head.weight in stage 3
//   no encoder.layer.7; near it: encoder.layer.0
