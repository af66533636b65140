// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "cleave/run/model/update.hpp"

/// The passes of linear stages (support/linear_engine.hpp): as kernels, in tests/cuda/linear_kernels.cu, and
/// per element for runs on the host.
namespace cleave::testing {

using namespace detail;

/// Tensors of a pass; unused ones are null.
struct number_lists {
  static constexpr std::uint32_t most = 12;
  double* data[most] = {};
  std::uint32_t count = 0;
};

/// Forward: `in` to `out`; `kept` receives the weighted sum. Backward: `in` are gradients of results and
/// `out` those of inputs; `kept` receives the sum of `in`.
struct linear_pass {
  number_lists in, out;
  double const* parameters = nullptr;  ///< w and b
  double* kept = nullptr;
  std::uint64_t count = 0;  ///< elements per tensor
  double from_loss = 0;     ///< gradient of each result from the loss
};

constexpr void linear_forward_element(linear_pass const& p, std::uint64_t i) {
  double x = p.in.count == 0 ? 1 : 0;
  for (std::uint32_t k = 0; k < p.in.count; ++k) x += (k + 1.0) * p.in.data[k][i];
  p.kept[i] = x;
  for (std::uint32_t j = 0; j < p.out.count; ++j)
    p.out.data[j][i] = (j + 1.0) * (p.parameters[0] * x + p.parameters[1]);
}
constexpr void linear_recompute_element(linear_pass const& p, std::uint64_t i) {
  double x = p.in.count == 0 ? 1 : 0;
  for (std::uint32_t k = 0; k < p.in.count; ++k) x += (k + 1.0) * p.in.data[k][i];
  p.kept[i] = x;
}
constexpr void linear_backward_element(linear_pass const& p, std::uint64_t i) {
  double g = 0;
  for (std::uint32_t j = 0; j < p.in.count; ++j) {
    g += (j + 1.0) * p.from_loss;
    if (p.in.data[j]) g += (j + 1.0) * p.in.data[j][i];
  }
  p.kept[i] = g;
  for (std::uint32_t k = 0; k < p.out.count; ++k)
    if (p.out.data[k]) p.out.data[k][i] = (k + 1.0) * p.parameters[0] * g;
}
/// Adds to the gradients of w and b.
constexpr void linear_weights(double const* x, double const* g, std::uint64_t count, double* gradients) {
  for (std::uint64_t i = 0; i < count; ++i) {
    gradients[0] += g[i] * x[i];
    gradients[1] += g[i];
  }
}
constexpr void linear_update(double* parameters, double* gradients, double factor) {
  for (int k = 0; k < 2; ++k) {
    parameters[k] -= factor * gradients[k];
    gradients[k] = 0;
  }
}

/// The same for a factor in device memory.
constexpr void linear_update(double* parameters, double* gradients, device_update const& u) {
  if (u.applied != 0) return linear_update(parameters, gradients, u.factor);
  gradients[0] = gradients[1] = 0;
}

void launch_linear_forward(cudaStream_t s, linear_pass const& p);
void launch_linear_recompute(cudaStream_t s, linear_pass const& p);
void launch_linear_backward(cudaStream_t s, linear_pass const& p);
void launch_linear_weights(cudaStream_t s, double const* x, double const* g, std::uint64_t count,
                           double* gradients);
void launch_linear_update(cudaStream_t s, double* parameters, double* gradients, double factor);
void launch_linear_update(cudaStream_t s, double* parameters, double* gradients, device_update const* u);

}  // namespace cleave::testing
