// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cleave/run/model/update.hpp>

/// The passes of the example stages as single-threaded kernels. Each stage multiplies a number by its weight;
/// the last one returns the squared error from y.
namespace example {

/// The memory of a pass; `y`, `arrived` and `to` may be null.
struct pass_numbers {
  double const* weight;
  double* kept;  ///< x and the error
  double *gradient = nullptr, *to = nullptr;
  double const *x = nullptr, *y = nullptr, *arrived = nullptr;
  double loss_weight = 0;
};

constexpr void forward_pass(pass_numbers const& p) {
  double const made = *p.weight * *p.x, off = p.y ? made - *p.y : 0;
  p.kept[0] = *p.x;
  p.kept[1] = off;
  *p.to = p.y ? off * off : made;
}
constexpr void backward_pass(pass_numbers const& p) {
  double const g =
      p.arrived ? *p.arrived : 2 * p.kept[1] * p.loss_weight;  // the backward pass begins at the loss
  *p.gradient += g * p.kept[0];
  if (p.to) *p.to = g * *p.weight;
}
constexpr void update_step(double* weight, double* gradient, double factor) {
  *weight -= 0.04 * factor * *gradient;
  *gradient = 0;
}

/// The same with a factor in GPU memory.
constexpr void update_step(double* weight, double* gradient, cleave::device_update const& u) {
  if (u.applied != 0) return update_step(weight, gradient, u.factor);
  *gradient = 0;
}

/// Launch the kernels on a stream.
void launch_forward(cudaStream_t s, pass_numbers const& p);
void launch_backward(cudaStream_t s, pass_numbers const& p);
void launch_update(cudaStream_t s, double* weight, double* gradient, double factor);
void launch_update(cudaStream_t s, double* weight, double* gradient, cleave::device_update const* u);

}  // namespace example
