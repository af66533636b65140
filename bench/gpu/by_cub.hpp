// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>

namespace bench {

/// `to[i] += factor * from[i]` by cub::DeviceTransform, `from` in bf16; false if this program is built
/// without CUB.
bool add_by_cub(cudaStream_t s, void const* from, float* to, std::size_t count, float factor);

}  // namespace bench
