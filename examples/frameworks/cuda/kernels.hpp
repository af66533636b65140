// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

/// The passes of the stages of these examples as kernels, by one lane: a stage multiplies one number by its
/// weight, and the last squares how far it is from y.
namespace example {

/// Where the numbers of a pass are; `y`, `arrived` and `to` may be null.
struct pass_numbers {
  double const* weight;
  double* kept;  ///< x, and how far from y
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
  double const g = p.arrived ? *p.arrived : 2 * p.kept[1] * p.loss_weight;  // the loss begins it
  *p.gradient += g * p.kept[0];
  if (p.to) *p.to = g * *p.weight;
}
constexpr void update_step(double* weight, double* gradient, double factor) {
  *weight -= 0.04 * factor * *gradient;
  *gradient = 0;
}

/// They issue to a stream, as kernels do.
void launch_forward(cudaStream_t s, pass_numbers const& p);
void launch_backward(cudaStream_t s, pass_numbers const& p);
void launch_update(cudaStream_t s, double* weight, double* gradient, double factor);

}  // namespace example
