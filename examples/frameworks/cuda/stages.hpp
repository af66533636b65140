// SPDX-License-Identifier: MIT
#pragma once
#include <cleave/cuda/callable_stage.hpp>
#include <cleave/cuda/check.hpp>
#include <cleave/cuda/device.hpp>
#include <cleave/run/program/make_rank_program.hpp>
#include <cleave/schedule/families/one_f_one_b.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels.hpp"

namespace example {

// [stages]
/// The engine of a rank on a GPU: loss = (b * a * x - y)^2, stage 0 has a, stage 1 has b. Bodies launch
/// kernels on the stream that they are given, and wait for nothing.
class small_stages {
 public:
  using views = std::span<cleave::tensor_view const>;

  explicit small_stages(cleave::cuda::device& d) : numbers_(d.allocate((2 + 2 * 4) * sizeof(double))) {
    double const begin[] = {1, 0};  // the weight and its gradient; then what passes keep
    cleave::cuda::check(cudaMemcpy(at(0), begin, sizeof begin, cudaMemcpyHostToDevice), "cudaMemcpy");
  }

  void forward(cudaStream_t s, cleave::stage_pass const& p, views in, std::span<cleave::tensor_view> out) {
    launch_forward(s, {.weight = at(0),
                       .kept = kept(p),
                       .to = number(out[0]),
                       .x = number(in[0]),
                       .y = in.size() > 1 ? number(in[1]) : nullptr});
  }
  void backward(cudaStream_t s, cleave::stage_pass const& p, views gradients, views in) {
    launch_backward(s, {.weight = at(0),
                        .kept = kept(p),
                        .gradient = at(1),
                        .to = number(in[0]),
                        .arrived = p.from_loss ? nullptr : number(gradients[0]),
                        .loss_weight = p.weight});
  }

  std::span<cleave::region const> parameters(cleave::stage_id) { return region_of(0); }
  std::span<cleave::region const> gradients(cleave::stage_id) { return region_of(1); }
  void update(cudaStream_t s, cleave::stage_id, double factor) { launch_update(s, at(0), at(1), factor); }
  bool records() const { return true; }  // the same kernels on the same memory, step after step

  double* at(std::size_t i) const { return static_cast<double*>(numbers_.data()) + i; }

 private:
  static double* number(cleave::tensor_view const& v) { return static_cast<double*>(v.data); }
  double* kept(cleave::stage_pass const& p) const { return at(2 + 2 * index(p.microbatch)); }
  std::span<cleave::region const> region_of(std::size_t i) {
    regions_[i] = {at(i), 1, cleave::element_type::f64};
    return {&regions_[i], 1};
  }

  cleave::cuda::buffer numbers_;
  cleave::region regions_[2];
};
// [stages]

/// The 1F1B schedule of two stages and four microbatches. Messages use one stream, as with NCCL.
inline cleave::step_plan plan_of_two() {
  constexpr auto first = cleave::stage_id{0}, second = cleave::stage_id{1};
  cleave::dataflow const edges{.stages = 2,
                               .edges = {{cleave::the_caller, 0, first, 0},     // x
                                         {first, 0, second, 0},                 // a x
                                         {cleave::the_caller, 1, second, 1},    // y
                                         {second, 0, cleave::the_caller, 0}}};  // the loss
  cleave::edge_layout const number{.type = cleave::element_type::f64, .shape = {1}};
  cleave::program_options const options{.delivery = {.delivery = cleave::delivery::one_queue}};
  return {cleave::one_f_one_b(2, 4), edges, {.edges = {4, number}}, options};
}

/// x and y = 6 x of each microbatch, in GPU memory.
class small_batch {
 public:
  explicit small_batch(cleave::cuda::device& d)
      : numbers_(d.allocate(8 * sizeof(double))), weights_(4, 0.25) {
    double const batch[] = {1, 6, 2, 12, -1, -6, 0, 0};
    auto* const to = static_cast<double*>(numbers_.data());
    cleave::cuda::check(cudaMemcpy(to, batch, sizeof batch, cudaMemcpyHostToDevice), "cudaMemcpy");
    for (int i = 0; i < 8; ++i) inputs_.push_back({to + i, cleave::element_type::f64, {1}});
  }
  cleave::step_values values() const { return {.inputs = inputs_, .inputs_of_each = 2, .weights = weights_}; }

 private:
  cleave::cuda::buffer numbers_;
  std::vector<cleave::tensor_view> inputs_;
  std::vector<double> weights_;
};

inline double number_of(cleave::tensor_view const& v) {
  double x = 0;
  cleave::cuda::check(cudaMemcpy(&x, v.data, sizeof x, cudaMemcpyDeviceToHost), "cudaMemcpy");
  return x;
}

}  // namespace example
