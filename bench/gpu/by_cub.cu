// SPDX-License-Identifier: MIT
#include "by_cub.hpp"

#include <cuda_bf16.h>

#include <cub/device/device_transform.cuh>
#include <cuda/std/tuple>

namespace bench {

bool add_by_cub(cudaStream_t s, void const* from, float* to, std::size_t count, float factor) {
  auto const add = [factor] __device__(__nv_bfloat16 x, float y) { return y + factor * __bfloat162float(x); };
  return cub::DeviceTransform::Transform(::cuda::std::make_tuple(static_cast<__nv_bfloat16 const*>(from), to),
                                         to, static_cast<long long>(count), add, s) == cudaSuccess;
}

}  // namespace bench
