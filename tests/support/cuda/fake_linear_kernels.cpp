// SPDX-License-Identifier: MIT
// The kernels of linear stages on the fake runtime, declared as in nvcc's host code.
#include <cstdint>

#include "support/cuda/fake_cuda.hpp"
#include "support/cuda/linear_kernels.hpp"

namespace cleave::testing {

void linear_forward_kernel(linear_pass p);
void linear_recompute_kernel(linear_pass p);
void linear_backward_kernel(linear_pass p);
void linear_weights_kernel(double const* x, double const* g, std::uint64_t count, double* gradients);
void linear_update_kernel(double* parameters, double* gradients, double factor);
void linear_device_update_kernel(double* parameters, double* gradients, device_update const* u);

namespace {

void tell(fake_accesses& a, linear_pass const& p) {
  auto const bytes = p.count * sizeof(double);
  if (p.parameters) a.reads(p.parameters, 2 * sizeof(double));
  for (std::uint32_t k = 0; k < p.in.count; ++k)
    if (p.in.data[k]) a.reads(p.in.data[k], bytes);
  for (std::uint32_t k = 0; k < p.out.count; ++k)
    if (p.out.data[k]) a.writes(p.out.data[k], bytes);
  a.writes(p.kept, bytes);
}

template <class Element>
void bind(void (*kernel)(linear_pass), Element element) {
  bind_kernel(
      kernel,
      [element](dim3, dim3, linear_pass const& p) {
        for (std::uint64_t i = 0; i < p.count; ++i) element(p, i);
      },
      [](fake_accesses& a, dim3, dim3, linear_pass const& p) { tell(a, p); });
}

bool bind_all() {
  bind(&linear_forward_kernel, [](linear_pass const& p, std::uint64_t i) { linear_forward_element(p, i); });
  bind(&linear_recompute_kernel,
       [](linear_pass const& p, std::uint64_t i) { linear_recompute_element(p, i); });
  bind(&linear_backward_kernel, [](linear_pass const& p, std::uint64_t i) { linear_backward_element(p, i); });
  bind_kernel(
      &linear_weights_kernel,
      [](dim3, dim3, double const* x, double const* g, std::uint64_t n, double* to) {
        linear_weights(x, g, n, to);
      },
      [](fake_accesses& a, dim3, dim3, double const* x, double const* g, std::uint64_t n, double* to) {
        a.reads(x, n * sizeof(double));
        a.reads(g, n * sizeof(double));
        a.writes(to, 2 * sizeof(double));
      });
  bind_kernel(
      &linear_update_kernel,
      [](dim3, dim3, double* parameters, double* gradients, double factor) {
        linear_update(parameters, gradients, factor);
      },
      [](fake_accesses& a, dim3, dim3, double* parameters, double* gradients, double) {
        a.writes(parameters, 2 * sizeof(double));
        a.writes(gradients, 2 * sizeof(double));
      });
  bind_kernel(
      &linear_device_update_kernel,
      [](dim3, dim3, double* parameters, double* gradients, device_update const* u) {
        linear_update(parameters, gradients, *u);
      },
      [](fake_accesses& a, dim3, dim3, double* parameters, double* gradients, device_update const* u) {
        a.reads(u, sizeof *u);
        a.writes(parameters, 2 * sizeof(double));
        a.writes(gradients, 2 * sizeof(double));
      });
  return true;
}

bool const are_bound = bind_all();

}  // namespace

}  // namespace cleave::testing
