// SPDX-License-Identifier: MIT
#include "support/cuda/linear_kernels.hpp"

#include <cstdint>

namespace cleave::testing {

__global__ void linear_forward_kernel(linear_pass p) {
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x)
    linear_forward_element(p, i);
}
__global__ void linear_recompute_kernel(linear_pass p) {
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x)
    linear_recompute_element(p, i);
}
__global__ void linear_backward_kernel(linear_pass p) {
  for (std::uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < p.count; i += gridDim.x * blockDim.x)
    linear_backward_element(p, i);
}
__global__ void linear_weights_kernel(double const* x, double const* g, std::uint64_t count,
                                      double* gradients) {
  linear_weights(x, g, count, gradients);
}
__global__ void linear_update_kernel(double* parameters, double* gradients, double factor) {
  linear_update(parameters, gradients, factor);
}
__global__ void linear_device_update_kernel(double* parameters, double* gradients, device_update const* u) {
  linear_update(parameters, gradients, *u);
}

void launch_linear_forward(cudaStream_t s, linear_pass const& p) {
  if (p.count > 0) linear_forward_kernel<<<4, 64, 0, s>>>(p);
}
void launch_linear_recompute(cudaStream_t s, linear_pass const& p) {
  if (p.count > 0) linear_recompute_kernel<<<4, 64, 0, s>>>(p);
}
void launch_linear_backward(cudaStream_t s, linear_pass const& p) {
  if (p.count > 0) linear_backward_kernel<<<4, 64, 0, s>>>(p);
}
void launch_linear_weights(cudaStream_t s, double const* x, double const* g, std::uint64_t count,
                           double* gradients) {
  linear_weights_kernel<<<1, 1, 0, s>>>(x, g, count, gradients);
}
void launch_linear_update(cudaStream_t s, double* parameters, double* gradients, double factor) {
  linear_update_kernel<<<1, 1, 0, s>>>(parameters, gradients, factor);
}
void launch_linear_update(cudaStream_t s, double* parameters, double* gradients, device_update const* u) {
  linear_device_update_kernel<<<1, 1, 0, s>>>(parameters, gradients, u);
}

}  // namespace cleave::testing
