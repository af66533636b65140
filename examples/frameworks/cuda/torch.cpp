// SPDX-License-Identifier: MIT
// Trains two libtorch stages on one GPU, with one thread per rank, and compares losses with those of the
// whole model. It needs a libtorch with CUDA, and the kernels of library.cu.
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/torch.h>

#include <algorithm>
#include <cleave/cuda.hpp>
#include <cleave/run.hpp>
#include <cleave/schedule.hpp>
#include <cmath>
#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "torch_views.hpp"

namespace {

constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
constexpr std::uint32_t microbatches = 4;
constexpr std::int64_t rows = 8, width = 16;

/// The stages: a layer with an activation, and a layer whose result is compared with y.
torch::Tensor first_half(torch::Tensor const& x, torch::Tensor const& w) { return torch::tanh(x.matmul(w)); }
torch::Tensor second_half(torch::Tensor const& x, torch::Tensor const& w, torch::Tensor const& y) {
  return (x.matmul(w) - y).square().mean();
}

// [stages]
/// Each body makes the stream that it is given the current one: all that libtorch issues, autograd too, goes
/// there.
class torch_stages {
 public:
  using views = std::span<cleave::tensor_view const>;

  explicit torch_stages(torch::Tensor weight) : weight_(std::move(weight)) {
    weight_.requires_grad_();
    weight_.mutable_grad() = torch::zeros_like(weight_);  // where gradients are added up, in every step
  }

  void forward(cudaStream_t s, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    torch::AutoGradMode const with_graph(p.trains);
    auto const x = tensor_of(in[0]).requires_grad_(p.trains && p.stage == second);
    auto const made =
        p.stage == first ? first_half(x, weight_) : second_half(x, weight_, tensor_of(in[1])).reshape({1});
    tensor_of(out[0]).copy_(made.detach());
    if (p.trains) kept_[p.microbatch] = {x, made};
  }
  void backward(cudaStream_t s, cleave::stage_pass const& p, views gradients, views in) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    auto const [x, made] = std::move(kept_.extract(p.microbatch).mapped());
    made.backward(p.from_loss ? torch::full_like(made, p.weight) : tensor_of(gradients[0]));
    if (in[0].data) tensor_of(in[0]).copy_(x.grad());
  }

  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(0, weight_); }
  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(1, weight_.grad()); }
  void update(cudaStream_t s, cleave::stage_id, double factor) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    torch::NoGradGuard const without_graph;
    weight_.sub_(weight_.grad(), 0.1 * factor);
    weight_.mutable_grad().zero_();
  }

 private:
  std::span<cleave::region const> region_of(std::size_t i, torch::Tensor const& t) {
    regions_[i] = {t.data_ptr(), static_cast<std::size_t>(t.numel()), cleave::element_type::f64};
    return {&regions_[i], 1};
  }

  torch::Tensor weight_;
  cleave::region regions_[2];
  std::map<cleave::microbatch_id, std::pair<torch::Tensor, torch::Tensor>> kept_;
};
// [stages]

cleave::step_plan plan_of_two() {
  cleave::dataflow const edges{.stages = 2,
                               .edges = {{cleave::the_caller, 0, first, 0},
                                         {first, 0, second, 0},
                                         {cleave::the_caller, 1, second, 1},
                                         {second, 0, cleave::the_caller, 0}}};
  auto const layout = [](std::int64_t a, std::int64_t b) {
    return cleave::edge_layout{.type = cleave::element_type::f64, .shape = {a, b}};
  };
  cleave::edge_layout const loss{.type = cleave::element_type::f64, .shape = {1}};
  cleave::program_options const options;
  return {cleave::one_f_one_b(2, microbatches),
          edges,
          {.edges = {layout(rows, width), layout(rows, width), layout(rows, 1), loss}},
          options};
}

int train() {
  torch::manual_seed(1);
  auto const w0 = torch::randn({width, width}, on_gpu) * 0.2, w1 = torch::randn({width, 1}, on_gpu) * 0.2;
  std::vector<torch::Tensor> x, y;
  std::vector<cleave::tensor_view> inputs;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    x.push_back(torch::randn({rows, width}, on_gpu));
    y.push_back(x.back().sum(1, true));
    inputs.push_back(view_of(x.back()));
    inputs.push_back(view_of(y.back()));
  }
  std::vector<double> const quarter(microbatches, 1.0 / microbatches);
  auto whole0 = w0.clone().requires_grad_(), whole1 = w1.clone().requires_grad_();
  torch::cuda::synchronize();

  using stages = cleave::cuda::callable_stage<torch_stages>;
  auto const plan = plan_of_two();
  cleave::cuda::thread_pipeline<stages> run(plan, [&](cleave::rank_id r, cleave::cuda::device&) {
    auto made = stages(torch_stages((r == cleave::rank_id{0} ? w0 : w1).clone()));
    torch::cuda::synchronize();
    return made;
  });
  double off = 0, loss = 0;
  for (int step = 0; step < 20; ++step) {
    run.run_step({.inputs = inputs, .inputs_of_each = 2, .weights = quarter});
    loss = 0;
    for (std::uint32_t m = 0; m < microbatches; ++m)
      loss += quarter[m] * tensor_of(*run.result(cleave::microbatch_id{m}, 0)).item<double>();
    run.update({.most_norm = 1e30});

    auto whole = torch::zeros({}, on_gpu);
    for (std::uint32_t m = 0; m < microbatches; ++m)
      whole = whole + quarter[m] * second_half(first_half(x[m], whole0), whole1, y[m]);
    whole.backward();
    off = std::max(off, std::abs(whole.item<double>() - loss));
    torch::NoGradGuard const without_graph;
    for (auto* const w : {&whole0, &whole1}) {
      w->sub_(w->grad(), 0.1);
      w->mutable_grad().zero_();
    }
  }
  std::cout << "loss " << loss << " after 20 steps, at most " << off << " from that of the whole model\n";
  return off < 1e-9 ? 0 : 1;
}

}  // namespace

int main() try {
  if (auto const fault = cleave::cuda::find_device_fault(0)) {
    std::cout << "skipped: " << fault->what() << '\n';
    return 0;
  }
  return train();
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
