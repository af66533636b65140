// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "cleave/cuda/detail/reduce_lane.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

/// The kernels of the library, as functions that any compiler can call. They are defined in kernels.cuh,
/// which exactly one source of a program includes, one that nvcc compiles.
///
/// Each of them issues its work to `stream`, on the current device, and returns; whether it could be issued,
/// cudaGetLastError says. `processors` is the number of multiprocessors of the device. All memory is of the
/// device, and results have the bits that the host's have, but that any NaN of f32 and f64 is as good as
/// another.
namespace cleave::detail {

/// Carries out one run of a table of sums, as `accumulate` does. `segments` are those of the whole table.
void launch_sums(cudaStream_t stream, sum_segment const* segments, sum_run const& run,
                 accumulate_options const& options, std::uint32_t processors);

/// As `sum_in_order` on the host. Preconditions: the same, and no more than `most_reduced_regions`.
void launch_sum_in_order(cudaStream_t stream, std::span<region const> regions, reduce_op op,
                         std::uint32_t processors);

/// Of one run of a table of squares: one sum a tile, to `partials`, as `squares_of_tile` does.
void launch_squares(cudaStream_t stream, sum_segment const* segments, sum_run const& run, double* partials,
                    std::uint32_t processors);

/// All these sums to one, in `*result`, as `squares_of_tiles` does.
void launch_sum_of_partials(cudaStream_t stream, double const* partials, std::uint64_t count, double* result);

}  // namespace cleave::detail
