// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cleave/cuda/callable_stage.hpp"
#include "cleave/cuda/check.hpp"
#include "cleave/cuda/device.hpp"
#include "cleave/cuda/memory.hpp"
#include "cleave/cuda/offload.hpp"
#include "cleave/run/model/concepts.hpp"
#include "support/cuda/linear_kernels.hpp"
#include "support/linear_engine.hpp"

namespace cleave::testing {

using namespace detail;

/// Linear stages on a GPU, the counterpart of `basic_linear_engine` on the host. Saved activations are
/// allocated and freed in stream order. Calls `prepare(pass)`, if set, before each pass.
class linear_bodies {
 public:
  linear_bodies(cleave::cuda::device& d, std::vector<linear_stage> const& stages,
                std::function<void(stage_pass const&)> prepare = {})
      : memory_(d.resources()),
        parameters_(d.allocate(2 * stages.size() * sizeof(double))),
        gradients_(d.allocate(2 * stages.size() * sizeof(double))),
        away_(d, 4096, 1),
        prepare_(std::move(prepare)) {
    std::vector<double> w;
    for (auto const& s : stages) w.insert(w.end(), {s.w, s.b});
    upload(parameters_, w);
    upload(gradients_, std::vector<double>(w.size()));
    for (std::size_t s = 0; s < stages.size(); ++s) {
      own_.push_back(both(gradients_, s));
      own_parameters_.push_back(both(parameters_, s));
    }
  }

  void forward(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> in,
               std::span<tensor_view> out) {
    if (prepare_) prepare_(p);
    auto const count = !in.empty() ? in[0].elements().count : out.empty() ? 0 : out[0].elements().count;
    auto& x = keep(x_, s, p, count);
    launch_linear_forward(s, {lists(in), lists(out), parameters_of(p), x.data, count, 0});
    require_launch();
    if (!p.trains) let_go(x_, s, p);
  }
  void backward(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> gradients,
                std::span<tensor_view const> in) {
    backward_input(s, p, gradients, in);
    backward_weight(s, p);
  }
  void backward_input(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> gradients,
                      std::span<tensor_view const> in) {
    if (prepare_) prepare_(p);
    auto const count = x_.at({p.stage, p.microbatch}).count;
    auto& g = keep(g_, s, p, count);
    launch_linear_backward(
        s, {lists(gradients), lists(in), parameters_of(p), g.data, count, p.from_loss ? p.weight : 0});
    require_launch();
  }
  void backward_weight(cudaStream_t s, stage_pass const& p) {
    if (prepare_) prepare_(p);
    auto const &x = x_.at({p.stage, p.microbatch}), &g = g_.at({p.stage, p.microbatch});
    launch_linear_weights(s, x.data, g.data, x.count, numbers(gradients_, index(p.stage)));
    require_launch();
    let_go(x_, s, p);
    let_go(g_, s, p);
  }
  void recompute(cudaStream_t s, stage_pass const& p, std::span<tensor_view const> in) {
    auto const& x = x_.at({p.stage, p.microbatch});
    launch_linear_recompute(s, {lists(in), {}, nullptr, x.data, x.count, 0});
    require_launch();
  }
  void offload(cudaStream_t s, stage_pass const& p) {
    auto const x = x_.at({p.stage, p.microbatch});
    away_.offload(s, p, {x.data, x.count, element_type::f64});
    let_go(x_, s, p);
    gone_[{p.stage, p.microbatch}] = x.count;
  }
  void reload(cudaStream_t s, stage_pass const& p) {
    auto const count = gone_.at({p.stage, p.microbatch});
    away_.reload(s, p, {keep(x_, s, p, count).data, count, element_type::f64});
  }
  void update(cudaStream_t s, stage_id i, double factor) {
    launch_linear_update(s, numbers(parameters_, index(i)), numbers(gradients_, index(i)), factor);
    require_launch();
  }
  void update(cudaStream_t s, stage_id i, device_update const* u) {
    launch_linear_update(s, numbers(parameters_, index(i)), numbers(gradients_, index(i)), u);
    require_launch();
  }

  std::span<region const> gradients(stage_id s) { return own_[index(s)]; }
  std::span<region const> parameters(stage_id s) { return own_parameters_[index(s)]; }

  /// These functions wait for the GPU.
  linear_gradient gradient(stage_id s) const {
    auto const g = read(gradients_, s);
    return {g.first, g.second};
  }
  linear_stage stage_of(stage_id s) const {
    auto const w = read(parameters_, s);
    return {w.first, w.second};
  }

 private:
  using key = std::pair<stage_id, microbatch_id>;
  struct kept {
    double* data;
    std::size_t count;
  };
  using kept_of_passes = std::map<key, kept>;

  static number_lists lists(std::span<tensor_view const> views) {
    expects(views.size() <= number_lists::most, "linear_bodies: few tensors");
    number_lists l;
    for (auto const& v : views) l.data[l.count++] = static_cast<double*>(v.data);
    return l;
  }
  static double* numbers(cleave::cuda::buffer const& b, std::size_t stage) {
    return static_cast<double*>(b.data()) + 2 * stage;
  }
  static std::vector<region> both(cleave::cuda::buffer const& b, std::size_t stage) {
    auto* const at = numbers(b, stage);
    return {{at, 1, element_type::f64}, {at + 1, 1, element_type::f64}};
  }
  static void upload(cleave::cuda::buffer const& to, std::vector<double> const& from) {
    cleave::cuda::check(cudaMemcpy(to.data(), from.data(), to.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  static std::pair<double, double> read(cleave::cuda::buffer const& from, stage_id s) {
    double two[2];
    cleave::cuda::check(cudaMemcpy(two, numbers(from, index(s)), sizeof two, cudaMemcpyDeviceToHost),
                        "cudaMemcpy");
    return {two[0], two[1]};
  }
  static void require_launch() { cleave::cuda::check(cudaGetLastError(), "launch of a linear pass"); }
  double const* parameters_of(stage_pass const& p) const { return numbers(parameters_, index(p.stage)); }

  kept& keep(kept_of_passes& all, cudaStream_t s, stage_pass const& p, std::size_t count) {
    let_go(all, s, p);
    auto* const data = static_cast<double*>(memory_.take(s, count * sizeof(double)));
    return all[{p.stage, p.microbatch}] = {data, count};
  }
  void let_go(kept_of_passes& all, cudaStream_t s, stage_pass const& p) {
    auto const at = all.find({p.stage, p.microbatch});
    if (at == all.end()) return;
    memory_.give_back(s, at->second.data);
    all.erase(at);
  }

  cleave::cuda::step_memory memory_;
  cleave::cuda::buffer parameters_, gradients_;
  cleave::cuda::pinned_saved_activations away_;
  std::function<void(stage_pass const&)> prepare_;
  kept_of_passes x_, g_;
  std::map<key, std::size_t> gone_;
  std::vector<std::vector<region>> own_, own_parameters_;
};

using cuda_linear_engine = cleave::cuda::callable_stage<linear_bodies>;

}  // namespace cleave::testing
