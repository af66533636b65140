// SPDX-License-Identifier: MIT
#include "kernels.hpp"

namespace example {

__global__ void forward_kernel(pass_numbers p) { forward_pass(p); }
__global__ void backward_kernel(pass_numbers p) { backward_pass(p); }
__global__ void update_kernel(double* weight, double* gradient, double factor) {
  update_step(weight, gradient, factor);
}
__global__ void device_update_kernel(double* weight, double* gradient, cleave::device_update const* u) {
  update_step(weight, gradient, *u);
}

void launch_forward(cudaStream_t s, pass_numbers const& p) { forward_kernel<<<1, 1, 0, s>>>(p); }
void launch_backward(cudaStream_t s, pass_numbers const& p) { backward_kernel<<<1, 1, 0, s>>>(p); }
void launch_update(cudaStream_t s, double* weight, double* gradient, double factor) {
  update_kernel<<<1, 1, 0, s>>>(weight, gradient, factor);
}
void launch_update(cudaStream_t s, double* weight, double* gradient, cleave::device_update const* u) {
  device_update_kernel<<<1, 1, 0, s>>>(weight, gradient, u);
}

}  // namespace example
