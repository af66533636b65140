// SPDX-License-Identifier: MIT
#include "by_cub.hpp"

namespace bench {

bool add_by_cub(cudaStream_t, void const*, float*, std::size_t, float) { return false; }

}  // namespace bench
