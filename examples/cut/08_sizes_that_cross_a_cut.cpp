// SPDX-License-Identifier: MIT
// Replaces a size that crosses a cut by numbers. The graph reads the size of a tensor in one part and uses it
// in another; `decompose_sizes` makes each dimension a number, so that no tuple crosses the cut.
#include <cleave/modules.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

using cleave::module_graph;
using kind = cleave::node_kind;
using position = module_graph::position;

position add(module_graph& g, kind what, std::string const& target, std::vector<position> const& reads = {},
             std::vector<cleave::dimension> const& shape = {}) {
  cleave::module_node n;
  n.kind = what;
  n.name = n.target = target;
  for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
  if (!shape.empty()) n.shape = shape;
  return g.add(std::move(n));
}

module_graph model() {
  module_graph g;
  auto const x = add(g, kind::placeholder, "x", {}, {"rows", std::int64_t{64}});
  auto const size = add(g, kind::call_method, "size", {x});  // x.size(): the tuple (rows, 64)
  auto const h = add(g, kind::call_module, "encoder", {x});
  auto const y = add(g, kind::call_module, "decoder", {h});
  auto const z = add(g, kind::call_method, "view", {y, size});  // y.view(x.size())
  add(g, kind::output, "output", {z});
  g.add_attribute({"encoder", cleave::module_attribute::kind::module, {}, {}, {}, {}});
  g.add_attribute({"decoder", cleave::module_attribute::kind::module, {}, {}, {}, {}});
  return g;
}

void show(std::string const& title, module_graph const& g) {
  std::cout << title << '\n';
  auto const pieces = cleave::split_module(g, [](cleave::module_node const& n) {
    return n.name == "decoder" || n.name == "view" ? "back" : "front";
  });
  for (auto const& piece : pieces.pieces) {
    auto const& stage = pieces.graph(piece);
    std::cout << "  " << piece.path << '\n';
    for (auto const& n : stage.list()) {
      std::cout << "    " << n.name;
      for (std::size_t i = 0; i < n.args.size(); ++i)
        std::cout << (i == 0 ? ": " : ", ") << argument_text(stage, n.args[i]);
      std::cout << '\n';
    }
  }
}

int main() {
  // [sizes]
  auto const g = model();
  show("as it is, a tuple goes from stage to stage", g);
  show("with decomposed sizes, a number does", cleave::decompose_sizes(g));
  // [sizes]
}

// It prints:
//
//   as it is, a tuple goes from stage to stage
//     submod_front
//       x
//       size: x
//       encoder: x
//       output: (encoder, size)
//     submod_back
//       encoder
//       size
//       decoder: encoder
//       view: decoder, size
//       output: view
//   with decomposed sizes, a number does
//     submod_front
//       x
//       sym_size_int: x, 0
//       encoder: x
//       output: (encoder, sym_size_int)
//     submod_back
//       encoder
//       sym_size_int
//       decoder: encoder
//       view: decoder, sym_size_int, 64
//       output: view
