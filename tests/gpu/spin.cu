// SPDX-License-Identifier: MIT
#include "gpu/spin.hpp"

#include <cstdint>

namespace cleave::testing {

__device__ std::uint64_t nanoseconds_now() {
  std::uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}
__global__ void spin_kernel(std::uint64_t nanoseconds) {
  if (nanoseconds == 0) return;
  std::uint64_t const begin = nanoseconds_now();
  while (nanoseconds_now() - begin < nanoseconds) {
  }
}

void launch_spin(cudaStream_t s, std::uint64_t nanoseconds) { spin_kernel<<<1, 32, 0, s>>>(nanoseconds); }

}  // namespace cleave::testing
