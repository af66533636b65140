// SPDX-License-Identifier: MIT
// Tests backward passes in two halves: for many kinds of graphs, the gradients equal those of one whole pass.

#include <torch/torch.h>

#include <algorithm>
#include <cleave/torch/split_backward.hpp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using cleave::torch::tensors;

/// A stage: a function of inputs and parameters, all of 4 by 4 numbers.
struct graph {
  std::string name;
  std::size_t inputs, parameters;
  tensors (*results)(tensors const& x, tensors const& w);
};

std::vector<graph> graphs() {
  return {
      {"a chain", 1, 3,
       [](tensors const& x, tensors const& w) -> tensors {
         return {(x[0].matmul(w[0].t()).tanh() * w[1]).matmul(w[2])};
       }},
      {"a parameter read on the way to another read of it", 1, 1,
       [](tensors const& x, tensors const& w) -> tensors { return {x[0].matmul(w[0]).tanh().matmul(w[0])}; }},
      {"parameters that meet before they reach the way", 1, 2,
       [](tensors const& x, tensors const& w) -> tensors { return {x[0].matmul(w[0].tanh() * w[1])}; }},
      {"no input that needs a gradient", 0, 2,
       [](tensors const&, tensors const& w) -> tensors { return {w[0].matmul(w[1]).tanh()}; }},
      {"a result from which another one is made", 0, 2,
       [](tensors const&, tensors const& w) -> tensors {
         auto const first = w[0].tanh();
         return {first.matmul(w[1]), first};
       }},
      {"a parameter that is read and also a result", 1, 2,
       [](tensors const& x, tensors const& w) -> tensors { return {x[0].matmul(w[0]) + w[1], w[0]}; }},
      {"inputs and parameters that nothing reads", 2, 2,
       [](tensors const& x, tensors const& w) -> tensors { return {x[1] * w[1]}; }},
      {"several results, a skip, an input read twice", 2, 3,
       [](tensors const& x, tensors const& w) -> tensors {
         auto const parts = x[0].matmul(w[0]).chunk(2, 1);
         auto const y = torch::cat({parts[1] * parts[0], parts[0]}, 1) + x[0];
         return {y.matmul(w[1]), (y * x[1]).matmul(w[2]), x[1] + 1};
       }},
  };
}

tensors random_tensors(std::size_t count) {
  tensors list;
  for (std::size_t i = 0; i < count; ++i)
    list.push_back(torch::randn({4, 4}, torch::kFloat64).requires_grad_());
  return list;
}

double distance(torch::Tensor const& a, torch::Tensor const& b) {
  auto const or_zero = [](torch::Tensor const& t) {
    return t.defined() ? t : torch::zeros({4, 4}, torch::kFloat64);
  };
  return (or_zero(a) - or_zero(b)).abs().max().item<double>();
}

/// Returns the largest difference between the gradients of both ways.
double difference(graph const& g) {
  auto const x = random_tensors(g.inputs), w = random_tensors(g.parameters);
  auto const y = g.results(x, w);
  tensors at_y, all = x;
  for (auto const& t : y) at_y.push_back(torch::randn_like(t));
  all.insert(all.end(), w.begin(), w.end());
  auto const expected = torch::autograd::grad(y, all, at_y, true, false, true);

  cleave::torch::split_backward halves(y, at_y, x, w);
  auto made = halves.input_gradients();
  made.resize(all.size());
  halves.each_weight_gradient([&](std::size_t i, torch::Tensor const& gradient) {
    auto& sum = made[g.inputs + i];
    sum = sum.defined() ? sum + gradient : gradient;
  });
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) most = std::max(most, distance(made[i], expected[i]));
  return most;
}

}  // namespace

int main() {
  torch::manual_seed(1);
  bool equal = true;
  for (auto const& g : graphs()) {
    double const off = difference(g);
    std::printf("%-52s off by %.1e\n", g.name.c_str(), off);
    equal = equal && off <= 1e-12;
  }
  return equal ? EXIT_SUCCESS : EXIT_FAILURE;
}
