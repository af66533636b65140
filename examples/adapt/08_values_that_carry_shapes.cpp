// SPDX-License-Identifier: MIT
// Cuts a graph that computes shapes with nodes, for a runtime that must know the rank of every tensor. The
// adapter forbids that a shape crosses between stages.
#include <algorithm>
#include <cleave/cleave.hpp>
#include <cstddef>
#include <iostream>
#include <set>
#include <span>
#include <string>
#include <vector>

struct op {  // its own result
  std::string type;
  std::vector<op const*> inputs;
  double flops;
  std::size_t result_bytes;
};

/// Returns the runtime's answer when it loads a stage. It takes the rank of a Reshape's result from the
/// contents of the second input, so the stage itself must compute these.
std::string verdict(std::vector<op const*> const& stage, std::vector<op const*> const& received) {
  for (op const* o : stage)
    if (o->type == "Reshape" && std::ranges::find(received, o->inputs[1]) != received.end())
      return "refused: Reshape operation with dynamic rank";
  return "accepted";
}

struct shape_blind_graph {
  std::vector<op const*> ops;

  std::span<op const* const> nodes() const { return ops; }
  std::span<op const* const> operands(op const* o) const { return o->inputs; }
  double weight(op const* o) const { return o->flops; }
  std::size_t bytes(op const* o) const { return o->result_bytes; }
  std::string const& name(op const* o) const { return o->type; }
};

// [portable]
struct shape_aware_graph : shape_blind_graph {
  explicit shape_aware_graph(std::vector<op const*> list) : shape_blind_graph{std::move(list)} {
    for (op const* o : ops)
      if (o->type == "Reshape") shapes.insert(o->inputs[1]);
  }
  bool portable(op const* o) const { return !shapes.contains(o); }

  std::set<op const*> shapes;
};
static_assert(cleave::bounded_graph<shape_aware_graph>);
// [portable]

template <class Graph>
void cut(Graph const& g) {
  auto const stages = cleave::split(g, cleave::balance(g, 2, {.cost_per_byte = 0.01}));
  for (auto const id : stages.plan().order) {
    auto const stage = stages[id];
    std::cout << "  stage " << cleave::index(id) << ':';
    for (op const* o : stage.nodes) std::cout << ' ' << o->type;
    std::cout << "; " << verdict(stage.nodes, stage.inputs) << '\n';
  }
}

int main() {
  op const image{"Parameter", {}, 0, 300}, conv{"Convolution", {&image}, 50, 80},
      sizes{"ShapeOf", {&image}, 0, 32}, shape{"Gather", {&sizes}, 0, 16}, pool{"Pool", {&conv}, 20, 400},
      flat{"Reshape", {&pool, &shape}, 0, 400}, fc{"MatMul", {&flat}, 40, 40}, out{"Softmax", {&fc}, 10, 40};
  std::vector<op const*> const ops{&image, &conv, &sizes, &shape, &pool, &flat, &fc, &out};

  std::cout << "as it is\n";
  cut(shape_blind_graph{ops});
  std::cout << "shapes are not portable\n";
  shape_aware_graph const g(ops);
  cut(g);

  try {  // a cut of your own is checked too
    cleave::split(g, cleave::assign(g, [&](op const* o) { return o == &flat || o == &fc || o == &out; }));
  } catch (cleave::partition_error const& e) {
    std::cout << e.what() << '\n';
  }
}

// It prints:
//
//   as it is
//     stage 0: Parameter Convolution ShapeOf Gather; accepted
//     stage 1: Pool Reshape MatMul Softmax; refused: Reshape operation with dynamic rank
//   shapes are not portable
//     stage 0: Parameter Convolution ShapeOf; accepted
//     stage 1: Gather Pool Reshape MatMul Softmax; accepted
//   a value that cannot cross a part boundary is read in another part: Gather (#3) in part 0 makes it, Reshape (#5) in part 1 reads it; put both nodes into the same part
