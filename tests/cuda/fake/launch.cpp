// SPDX-License-Identifier: MIT
#include <cuda_runtime_api.h>
#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "support/cuda/fake_cuda.hpp"

using namespace cleave::testing;

// What the host code that nvcc 13 makes of a kernel calls.
extern "C" {
void** __cudaRegisterFatBinary(void*);
void __cudaRegisterFatBinaryEnd(void**);
void __cudaUnregisterFatBinary(void**);
void __cudaRegisterFunction(void**, char const*, char*, char const*, int, uint3*, uint3*, dim3*, dim3*, int*);
unsigned __cudaPushCallConfiguration(dim3, dim3, std::size_t, void*);
cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, std::size_t*, void*);
cudaError_t __cudaGetKernel(cudaKernel_t*, void const*);
cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, std::size_t, cudaStream_t);
}

namespace {

void fill(char, float* p, double x, unsigned n) {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t on = nullptr;
  cudaKernel_t kernel = nullptr;
  char first = 0;
  void* parameters[] = {&first, &p, &x, &n};
  CHECK(__cudaGetKernel(&kernel, reinterpret_cast<void const*>(&fill)) == cudaSuccess);
  CHECK(__cudaPopCallConfiguration(&grid, &block, &shared, &on) == cudaSuccess);
  __cudaLaunchKernel(kernel, grid, block, parameters, shared, on);
}

}  // namespace

TEST_CASE("fake_cuda: registers, configures and launches kernels through the interface of nvcc's host code") {
  auto** const binary = __cudaRegisterFatBinary(nullptr);
  __cudaRegisterFunction(binary, reinterpret_cast<char const*>(&fill), nullptr,
                         "_ZN12_GLOBAL__N_14fillIfEEvcPT_dj", -1, nullptr, nullptr, nullptr, nullptr,
                         nullptr);
  __cudaRegisterFatBinaryEnd(binary);
  bind_kernel(
      &fill,
      [](dim3 grid, dim3 block, char, float* p, double x, unsigned n) {
        for (unsigned i = 0; i < n && i < grid.x * block.x; ++i) p[i] = static_cast<float>(x);
      },
      [](fake_accesses& a, dim3, dim3, char, float* p, double, unsigned n) {
        a.writes(p, n * sizeof(float));
      });
  fake_cuda fake;
  cudaStream_t s = nullptr;
  CHECK(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess);
  void* p = nullptr;
  CHECK(cudaMalloc(&p, 16) == cudaSuccess);
  auto* const numbers = static_cast<float*>(p);
  auto const launch = [&](dim3 grid, unsigned n) {
    CHECK(__cudaPushCallConfiguration(grid, dim3(2), 0, s) == 0);
    fill('x', numbers, 2.5, n);
    return cudaGetLastError();
  };
  CHECK(launch(dim3(2), 4) == cudaSuccess);
  CHECK(cudaStreamSynchronize(s) == cudaSuccess);
  float last = 0;
  CHECK(cudaMemcpy(&last, numbers + 3, 4, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(last == 2.5f);
  CHECK(launch(dim3(1, 0x10000), 4) == cudaErrorInvalidConfiguration);
  CHECK(launch(dim3(2), 5) == cudaSuccess);
  CHECK(
      fake.reports() ==
      std::vector<std::string>{
          "kernel fill<float> is launched with 65536 blocks of 2 threads and 0 bytes that they share",
          "kernel fill<float> on stream 0 writes 20 bytes at 0 in allocation 0 (16 bytes of device 0), which "
          "ends before"});
  __cudaUnregisterFatBinary(binary);
}
