// SPDX-License-Identifier: MIT
// What spinning is on the fake runtime: its stream sleeps. The kernel is declared as nvcc's host code has it.
#include <chrono>
#include <cstdint>
#include <thread>

#include "support/cuda/fake_cuda.hpp"

namespace cleave::testing {

void spin_kernel(std::uint64_t nanoseconds);

namespace {

bool bind_spin() {
  bind_kernel(
      &spin_kernel,
      [](dim3, dim3, std::uint64_t ns) {
        if (ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(ns));
      },
      [](fake_accesses&, dim3, dim3, std::uint64_t) {});
  return true;
}

bool const is_bound = bind_spin();

}  // namespace

}  // namespace cleave::testing
