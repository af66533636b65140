// SPDX-License-Identifier: MIT
// Trains a libtorch stage whose steps are replayed as CUDA graphs, and compares losses with those of the same
// model outside of cleave. It needs a libtorch with CUDA, NCCL, a GPU, and the kernels of library.cu.
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
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
#include <utility>
#include <vector>

#include "torch_views.hpp"

namespace {

constexpr auto only = cleave::stage_id{0};
constexpr std::uint32_t microbatches = 4;
constexpr std::int64_t rows = 8, width = 16;

torch::Tensor loss_of(torch::Tensor const& x, torch::Tensor const& w, torch::Tensor const& y) {
  return (torch::tanh(x.matmul(w)).sum(1, true) - y).square().mean();
}

// [pool]
/// A pool of libtorch's allocator for recorded work. What is freed there serves recorded work only, so
/// replays overwrite nothing of others.
class recorded_memory {
 public:
  recorded_memory() = default;
  recorded_memory(recorded_memory&& other) noexcept : id_(other.id_), uses_(std::exchange(other.uses_, 0)) {}
  ~recorded_memory() {
    for (; uses_ > 0; --uses_) c10::cuda::CUDACachingAllocator::releasePool(0, id_);
  }

  void begin() {
    c10::cuda::CUDACachingAllocator::beginAllocateToPool(0, id_, [](cudaStream_t s) {
      auto is = cudaStreamCaptureStatusNone;
      return cudaStreamIsCapturing(s, &is) == cudaSuccess && is == cudaStreamCaptureStatusActive;
    });
    ++uses_;
  }
  void end() { c10::cuda::CUDACachingAllocator::endAllocateToPool(0, id_); }

 private:
  at::cuda::MempoolId_t id_ = at::cuda::graph_pool_handle();
  int uses_ = 0;
};
// [pool]

class torch_stage {
 public:
  using views = std::span<cleave::tensor_view const>;

  explicit torch_stage(torch::Tensor weight) : weight_(std::move(weight)) {
    weight_.requires_grad_();
    weight_.mutable_grad() = torch::zeros_like(weight_);
  }

  void forward(cudaStream_t s, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    auto const made = loss_of(tensor_of(in[0]), weight_, tensor_of(in[1])).reshape({1});
    tensor_of(out[0]).copy_(made.detach());
    kept_[p.microbatch] = made;
  }
  void backward(cudaStream_t s, cleave::stage_pass const& p, views, views) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    auto const made = std::move(kept_.extract(p.microbatch).mapped());
    made.backward(torch::full_like(made, p.weight));
  }

  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(0, weight_); }
  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(1, weight_.grad()); }
  void update(cudaStream_t s, cleave::stage_id, double factor) {
    c10::cuda::CUDAStreamGuard const current(c10::cuda::getStreamFromExternal(s, 0));
    torch::NoGradGuard const without_graph;
    weight_.sub_(weight_.grad(), 0.1 * factor);
    weight_.mutable_grad().zero_();
  }

  // [records]
  bool records() const { return true; }
  void begin_recording(cudaStream_t) { memory_.begin(); }
  void end_recording(cudaStream_t) { memory_.end(); }
  // [records]

 private:
  std::span<cleave::region const> region_of(std::size_t i, torch::Tensor const& t) {
    regions_[i] = {t.data_ptr(), static_cast<std::size_t>(t.numel()), cleave::element_type::f64};
    return {&regions_[i], 1};
  }

  recorded_memory memory_;  // outlives what was allocated there
  torch::Tensor weight_;
  cleave::region regions_[2];
  std::map<cleave::microbatch_id, torch::Tensor> kept_;
};

cleave::step_plan plan_of_one() {
  cleave::dataflow const edges{.stages = 1,
                               .edges = {{cleave::the_caller, 0, only, 0},
                                         {cleave::the_caller, 1, only, 1},
                                         {only, 0, cleave::the_caller, 0}}};
  auto const layout = [](std::int64_t a, std::int64_t b) {
    return cleave::edge_layout{.type = cleave::element_type::f64, .shape = {a, b}};
  };
  cleave::edge_layout const loss{.type = cleave::element_type::f64, .shape = {1}};
  cleave::program_options const options{.delivery = {.delivery = cleave::delivery::one_queue}};
  return {cleave::one_f_one_b(1, microbatches),
          edges,
          {.edges = {layout(rows, width), layout(rows, 1), loss}},
          options};
}

int train() {
  torch::manual_seed(1);
  auto const w = torch::randn({width, width}, on_gpu) * 0.2;
  std::vector<torch::Tensor> x, y;
  std::vector<cleave::tensor_view> inputs;
  for (std::uint32_t m = 0; m < microbatches; ++m) {
    x.push_back(torch::randn({rows, width}, on_gpu));
    y.push_back(x.back().sum(1, true));
    inputs.push_back(view_of(x.back()));
    inputs.push_back(view_of(y.back()));
  }
  std::vector<double> const quarter(microbatches, 1.0 / microbatches);
  auto whole = w.clone().requires_grad_();
  torch::cuda::synchronize();

  using stage = cleave::cuda::callable_stage<torch_stage>;
  cleave::cuda::pipeline_options options;
  options.run.steps = cleave::step_mode::replayed;
  cleave::cuda::pipeline<stage> run(plan_of_one(),
                                    [&](cleave::cuda::device&) {
                                      auto made = stage(torch_stage(w.clone()));
                                      torch::cuda::synchronize();
                                      return made;
                                    },
                                    options,
                                    {.meeting = {"127.0.0.1", 0}, .key = "only one process uses it"});
  double off = 0, loss = 0;
  for (int step = 0; step < 20; ++step) {
    run.run_step({.inputs = inputs, .inputs_of_each = 2, .weights = quarter});
    loss = 0;
    for (std::uint32_t m = 0; m < microbatches; ++m)
      loss += quarter[m] * tensor_of(*run.result(cleave::microbatch_id{m}, 0)).item<double>();
    run.update({.most_norm = 1e30});

    // All of this allocates between replays.
    auto sum = torch::zeros({}, on_gpu);
    for (std::uint32_t m = 0; m < microbatches; ++m) sum = sum + quarter[m] * loss_of(x[m], whole, y[m]);
    sum.backward();
    off = std::max(off, std::abs(sum.item<double>() - loss));
    torch::NoGradGuard const without_graph;
    whole.sub_(whole.grad(), 0.1);
    whole.mutable_grad().zero_();
  }
  std::cout << "loss " << loss << " after 20 steps, " << run.recordings() << " of them recorded, at most "
            << off << " from that of the whole model\n";
  return off < 1e-9 && run.recordings() == 1 ? 0 : 1;
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
