// SPDX-License-Identifier: MIT
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <optional>
#include <span>

#include "cleave/cuda/detail/fp8_lane.hpp"
#include "cleave/cuda/detail/reduce_lane.hpp"
#include "cleave/run/model/concepts.hpp"
#include "cleave/run/model/update.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

/// The kernels of the library, as functions that any compiler can call. They are defined in kernels.cuh,
/// which exactly one source file of a program includes, compiled by nvcc.
///
/// Each function issues its work to `stream` on the current device and returns; launch errors are reported by
/// cudaGetLastError. `processors` is the number of multiprocessors of the device. All memory is device
/// memory. Results have the same bits as on the host, except for the payload of f32 and f64 NaNs.
namespace cleave::inline v0_2::detail {

/// Executes one run of a table of sums, as `accumulate`. `segments` are those of the whole table.
void launch_sums(cudaStream_t stream, sum_segment const* segments, sum_run const& run,
                 accumulate_options const& options, std::uint32_t processors);

/// Computes `sum_in_order` on the device. With `only`, stores the result in that region alone and leaves the
/// others as they are. Preconditions: those of `sum_in_order`, and at most `most_reduced_regions` regions.
void launch_sum_in_order(cudaStream_t stream, std::span<region const> regions, reduce_op op,
                         std::uint32_t processors, std::optional<std::uint32_t> only = {});

/// Computes the sums of squares of one run of a table, one per tile, into `partials`, as `squares_of_tile`.
void launch_squares(cudaStream_t stream, sum_segment const* segments, sum_run const& run, double* partials,
                    std::uint32_t processors);

/// Adds the `count` partial sums into `*result`, in the order of `sum_of_squares`.
void launch_sum_of_partials(cudaStream_t stream, double const* partials, std::uint64_t count, double* result);

/// Packs the values of `from` as 8-bit floats at `to`, or unpacks those at `from`. The largest magnitudes at
/// `to` must be 0 before. Preconditions: all elements are aligned to their size.
void launch_fp8_pack(cudaStream_t stream, region const& from, void* to, fp8_block_list const& all,
                     cuda::fp8_format format, std::uint32_t processors);
void launch_fp8_unpack(cudaStream_t stream, void const* from, region const& to, fp8_block_list const& all,
                       cuda::fp8_format format, std::uint32_t processors);

/// Computes `update_of` for a sum of squares and options in device memory.
void launch_update(cudaStream_t stream, double const* squares, update_options const* options,
                   device_update* result);

}  // namespace cleave::detail
