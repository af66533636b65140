// SPDX-License-Identifier: MIT
// Cuts a graph of TorchScript that has a branch, a loop, a list, a view and operations in place; it must not
// write its arguments. Each stage becomes a torch::jit::Graph of its own, which TorchScript's linter checks
// and its interpreter runs; the result must equal that of the whole graph, bit for bit.
#include <ATen/ATen.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/jit.h>

#include <cleave/cut.hpp>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <vector>

// [adapter]
struct script_graph {
  using node = torch::jit::Node*;
  using value = torch::jit::Value*;

  explicit script_graph(std::shared_ptr<torch::jit::Graph> const& g) : graph(g), memory(g) {
    auto const has_effects = [&](node n) {
      return n->hasSideEffects() || n->isNondeterministic() || memory.hasWriters(n) || !n->blocks().empty();
    };
    order = cleave::order_effects(graph->nodes(), has_effects, has_effects);
  }

  auto nodes() const { return graph->nodes(); }
  auto operands(node n) const { return n->inputs(); }
  auto results(node n) const { return n->outputs(); }
  auto inputs() const { return graph->inputs(); }
  auto outputs() const { return graph->outputs(); }
  auto regions(node n) const { return n->blocks(); }
  auto nodes(torch::jit::Block* b) const { return b->nodes(); }
  auto arguments(torch::jit::Block* b) const { return b->inputs(); }
  auto yields(torch::jit::Block* b) const { return b->outputs(); }
  auto after(node n) const { return order[n]; }
  bool replicable(node n) const { return n->kind() == torch::jit::prim::Constant; }
  bool portable(value v) const {  // a tensor, unless a node writes its memory
    return v->type()->isSubtypeOf(*torch::jit::TensorType::get()) && !memory.hasWriters(v);
  }
  double weight(node) const { return 1; }
  std::size_t bytes(value) const { return 1; }  // a script does not say the sizes
  std::string name(node n) const { return n->kind().toUnqualString(); }

  std::shared_ptr<torch::jit::Graph> graph;
  torch::jit::AliasDb memory;
  cleave::effect_order<node> order;
};
// [adapter]
static_assert(cleave::nested_graph<script_graph> && cleave::effectful_graph<script_graph> &&
              cleave::replicating_graph<script_graph> && cleave::bounded_graph<script_graph>);

// [builder]
struct script_builder {
  torch::jit::Value* argument(script_graph::value v, cleave::source) {
    return graph->addInput()->setType(v->type());
  }
  auto clone(script_graph::node n, auto lookup) {
    return graph->insertNode(graph->createClone(n, lookup))->outputs();
  }
  void result(script_graph::value, torch::jit::Value* made) { graph->registerOutput(made); }

  std::shared_ptr<torch::jit::Graph> graph = std::make_shared<torch::jit::Graph>();
};
// [builder]

constexpr char const* script = R"(
def model(x, up, down):
    h = torch.relu(torch.mm(x, up))
    h.add_(1.0)
    h.view([-1]).mul_(0.5)
    left, right = torch.chunk(h, 2, 1)
    y = torch.mm(left * torch.sigmoid(right), down)
    if bool(y.sum() > 0):
        z = y - h.mean()
    else:
        z = torch.tanh(y)
    for i in range(3):
        z = torch.sin(z) + i * 0.1
    return torch.softmax(z, 1) + x
)";

using tensors = std::vector<at::Tensor>;

tensors run_graph(torch::jit::GraphExecutor& executor, std::span<at::Tensor const> in) {
  torch::jit::Stack stack(in.begin(), in.end());
  executor.run(stack);
  tensors out;
  for (auto const& made : stack) out.push_back(made.toTensor().clone());
  return out;
}

int main() {
  auto const unit = torch::jit::compile(script);
  auto const whole = torch::jit::toGraphFunction(unit->get_function("model")).graph();

  // [cut]
  script_graph const g(whole);
  auto const stages = cleave::split(g, cleave::balance(g, 3));
  std::vector<torch::jit::GraphExecutor> executors(stages.size());
  for (auto const id : stages.plan().order) {
    script_builder made;
    cleave::emit(stages, id, made);
    made.graph->lint();
    executors[index(id)] = torch::jit::GraphExecutor(made.graph, "stage" + std::to_string(index(id)));
  }
  auto const run = [&](cleave::stage_id id, std::span<at::Tensor> in) {
    return run_graph(executors[index(id)], in);
  };
  // [cut]
  for (auto const id : stages.plan().order) {
    std::cout << "stage " << index(id) << ':';
    for (auto* const n : stages[id].nodes)
      if (!g.replicable(n)) std::cout << ' ' << g.name(n);
    std::cout << '\n';
  }

  torch::jit::GraphExecutor whole_executor(whole, "whole");
  for (std::int64_t seed = 0; seed < 5; ++seed) {
    at::manual_seed(static_cast<std::uint64_t>(seed));
    tensors const given{at::randn({4, 8}), at::randn({8, 16}), at::randn({8, 8})};
    auto const expected = run_graph(whole_executor, given), made = cleave::run_stages(stages, given, run);
    if (!at::equal(made.front(), expected.front())) {
      std::cout << "the results differ\n";
      return 1;
    }
  }
  std::cout << "5 calls of the graph and of its stages give the same\n";
}
