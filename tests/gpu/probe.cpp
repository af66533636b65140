// SPDX-License-Identifier: MIT
// Says which GPU there is, for `./dev gpu`: its architecture in the first line, what it is in the second; or
// why none can be used.
#include <cuda_runtime_api.h>

#include <cstdio>

#include "cleave/cuda/device.hpp"

int main() {
  if (auto const fault = cleave::cuda::find_device_fault(0))
    return std::fprintf(stderr, "%s\n", fault->what()), 1;
  cudaDeviceProp gpu = {};
  int driver = 0, runtime = 0;
  if (cudaGetDeviceProperties(&gpu, 0) != cudaSuccess || cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return std::fprintf(stderr, "the GPU does not say what it is\n"), 1;
  auto const text = [](int v) { return static_cast<double>(v / 1000) + v % 1000 / 10 * 0.1; };
  std::printf(
      "%d%d\n%s, %.0f GiB, %d multiprocessors, compute capability %d.%d, driver for CUDA %.1f, runtime "
      "%.1f\n",
      gpu.major, gpu.minor, gpu.name, static_cast<double>(gpu.totalGlobalMem) / (1 << 30),
      gpu.multiProcessorCount, gpu.major, gpu.minor, text(driver), text(runtime));
}
