// SPDX-License-Identifier: MIT
// Prints a pipe as code: the graph that calls the stages, then each stage.
#include <cleave/formats/module_code.hpp>
#include <cleave/pipe.hpp>
#include <cstdint>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

using cleave::module_graph;
using cleave::node_kind;

int main() {
  module_graph g;
  auto const node = [&](node_kind kind, std::string name, std::string target,
                        std::vector<std::uint32_t> reads = {}, std::vector<cleave::dimension> shape = {}) {
    cleave::module_node n;
    n.kind = kind;
    n.name = std::move(name);
    n.target = std::move(target);
    for (auto const v : reads) n.args.push_back(cleave::node_argument(v));
    if (!shape.empty()) n.shape = std::move(shape);
    return g.add(std::move(n));
  };
  g.add_attribute({"layers.0.weight", cleave::module_attribute::kind::parameter, {}, {}, {}, {}});
  auto const x = node(node_kind::placeholder, "x", "x", {}, {"batch", 16});
  auto const w = node(node_kind::get_attr, "w", "layers.0.weight", {}, {16, 16});
  auto const h = node(node_kind::call_function, "h", "linear", {x, w}, {"batch", 16});
  node(node_kind::call_function, "cut", "pipe_split");
  auto const y = node(node_kind::call_method, "y", "relu", {h});
  node(node_kind::output, "output", "output", {y});

  // [print]
  auto const pipe = cleave::make_module_pipe(g);
  std::cout << cleave::write_module_code(pipe.outer, "pipe");
  // [print]
}

// It prints:
//
//   def pipe(self, x: [batch, 16]):
//       stage_0: [batch, 16] = self.stage_0(x)
//       stage_1 = self.stage_1(stage_0)
//       return stage_1
//
//   def stage_0(self, x: [batch, 16]):
//       layers_0_weight: [16, 16] = self.layers[0].weight
//       h: [batch, 16] = linear(x, layers_0_weight)
//       return h
//
//   def stage_1(self, h: [batch, 16]):
//       y = h.relu()
//       return y
