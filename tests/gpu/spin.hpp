// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

namespace cleave::testing {

/// Keeps one multiprocessor busy for so many nanoseconds by the GPU's clock; for none it launches an empty
/// kernel.
void launch_spin(cudaStream_t s, std::uint64_t nanoseconds);

}  // namespace cleave::testing
