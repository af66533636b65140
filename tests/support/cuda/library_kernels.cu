// SPDX-License-Identifier: MIT
// The only source of the tests that includes the kernels. A test inspects its machine code too.
#include "support/cuda/library_kernels.hpp"

#include <cstddef>

#include "cleave/cuda/kernels.cuh"

namespace cleave::testing {

using namespace detail;

/// A control for the machine code test: it must find this access to an address of any kind.
__global__ void control_of_any_address(float* far, int choice) {
  __shared__ float near[32];
  near[threadIdx.x] = 0;
  float* const p = choice > 3 ? near : far;
  p[threadIdx.x] += near[choice];
  far[0] = near[1];
}
__global__ void control_of_stack(int* p) {
  int x[64];
  for (int i = 0; i < 64; ++i) x[p[i] & 63] = i;
  *p = x[p[64] & 63];
}
__global__ void control_of_rounding(float* x, double* y) {
  x[0] += x[1] * x[2];
  y[0] += y[1] * y[2];
}
__global__ void control_of_16_bytes(float4* p) { p[0] = p[1]; }

template <class Kernel>
void const* stub(Kernel* kernel) {
  return reinterpret_cast<void const*>(kernel);
}

void const* accumulate_stub(element_type from, element_type to, sum_target how) {
  void const* found = nullptr;
  dispatch_floating_type(from, [&](auto x) {
    dispatch_floating_type(to, [&](auto y) {
      using From = decltype(x);
      using To = decltype(y);
      found = how == sum_target::added_to ? stub(&accumulate_kernel<From, To, adding>)
                                          : stub(&accumulate_kernel<From, To, overwriting>);
    });
  });
  return found;
}

void const* reduce_stub(element_type type, reduce_op op, std::size_t room) {
  void const* found = nullptr;
  dispatch_element_type(type, [&](auto zero) {
    using T = decltype(zero);
    if (room == 2)
      found = op == reduce_op::sum ? stub(&reduce_kernel<T, reduce_op::sum, 2>)
                                   : stub(&reduce_kernel<T, reduce_op::max, 2>);
    else if (room == most_reduced_regions)
      found = op == reduce_op::sum ? stub(&reduce_kernel<T, reduce_op::sum, most_reduced_regions>)
                                   : stub(&reduce_kernel<T, reduce_op::max, most_reduced_regions>);
  });
  return found;
}

void const* squares_stub(element_type type) {
  void const* found = nullptr;
  dispatch_floating_type(type, [&](auto zero) { found = stub(&squares_kernel<decltype(zero)>); });
  return found;
}

void const* partials_stub() { return stub(&partials_kernel); }
void const* update_stub() { return stub(&update_kernel); }

void const* fp8_largest_stub(element_type type) {
  void const* found = nullptr;
  dispatch_fp8(type, cuda::fp8_format::e4m3, [&]<class T>(T, auto) { found = stub(&fp8_largest_kernel<T>); });
  return found;
}

void const* fp8_stub(element_type type, cuda::fp8_format format, fp8_way way) {
  void const* found = nullptr;
  dispatch_fp8(type, format, [&]<class T, class Format>(T, Format) {
    found = way == fp8_way::pack ? stub(&fp8_pack_kernel<T, Format::value>)
                                 : stub(&fp8_unpack_kernel<T, Format::value>);
  });
  return found;
}

}  // namespace cleave::testing
