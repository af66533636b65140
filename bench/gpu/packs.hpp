// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>

#include "cleave/run/sums/sum_in_order.hpp"

namespace bench {

/// The packs of a sum: 16 bytes of the longer or of the shorter of its two types, or 32 bytes of the longer.
enum class pack_of { longer, shorter, longer_wide };

/// Adds bf16 to f32 by a run of a table, with such packs. Returns false if this program is built without
/// these kernels.
bool add_in_packs(pack_of which, cudaStream_t s, cleave::detail::sum_segment const* segments,
                  cleave::detail::sum_run const& run, std::uint32_t processors);

}  // namespace bench
