// SPDX-License-Identifier: MIT
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "cleave/core/expects.hpp"
#include "cleave/cuda/detail/device_access.cuh"
#include "cleave/cuda/detail/fp8_lane.hpp"
#include "cleave/cuda/detail/kernels.hpp"
#include "cleave/cuda/detail/reduce_lane.hpp"
#include "cleave/cuda/detail/square_lane.hpp"
#include "cleave/run/sums/sum_in_order.hpp"

/// Defines the functions declared in kernels.hpp. Include it in exactly one source file of a program,
/// compiled by nvcc without -use_fast_math, which would flush subnormal numbers to 0.
namespace cleave::inline v0_2::detail {

/// Blocks per multiprocessor that run concurrently, with 64 registers per lane.
inline constexpr std::uint32_t blocks_at_once = 4;
/// The same for sums of squares, which need more registers.
inline constexpr std::uint32_t square_blocks_at_once = 3;

template <class From, class To, class Operation>
__global__ void __launch_bounds__(gpu_lanes::lanes, blocks_at_once)
    accumulate_kernel(sum_segment const* segments, std::uint32_t count, std::uint32_t tiles,
                      common_sum_t<From, To> factor, float const* device_factor, std::uint32_t* nonfinite) {
  if (device_factor) factor = gpu_lanes::product(factor, common_sum_t<From, To>{*device_factor});
  bool const bad = accumulate_block<From, To, nonfinite_checked<Operation>, sum_lanes>(
      segments, count, tiles, factor, blockIdx.x, gridDim.x, threadIdx.x);
  if (nonfinite && __syncthreads_or(bad) && threadIdx.x == 0) atomicOr(nonfinite, 1u);
}

template <class T, reduce_op Op, std::size_t Room>
__global__ void __launch_bounds__(gpu_lanes::lanes, blocks_at_once)
    reduce_kernel(region_addresses<Room> const __grid_constant__ regions) {
  reduce_lane<T, Op, gpu_lanes>(regions, blockIdx.x, gridDim.x, threadIdx.x);
}

/// Adds the partial sums `mine[u]`, number `u * 256 + lane`, of all lanes of a block as a tree. The first
/// lane gets the result of `sum_of_neighbours`. `scratch` may be reused after the next synchronisation of all
/// lanes.
template <std::size_t N>
__device__ double block_sum_of_neighbours(double const (&mine)[N], double* scratch) {
  constexpr std::uint32_t warps = gpu_lanes::lanes / 32, all = N * warps;
  for (std::uint32_t u = 0; u < N; ++u) {
    double sum = mine[u];
    for (int apart = 1; apart < 32; apart *= 2)
      sum = gpu_lanes::sum(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
    if (threadIdx.x % 32 == 0) scratch[u * warps + threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  double sum = 0;
  if constexpr (all > 32)
    sum = gpu_lanes::sum(scratch[2 * threadIdx.x], scratch[2 * threadIdx.x + 1]);
  else if (threadIdx.x < all)
    sum = scratch[threadIdx.x];
  for (int apart = 1; apart < static_cast<int>(all > 32 ? 32 : all); apart *= 2)
    sum = gpu_lanes::sum(sum, __shfl_xor_sync(0xffffffffu, sum, apart));
  return sum;
}

template <class T>
__global__ void __launch_bounds__(gpu_lanes::lanes, square_blocks_at_once)
    squares_kernel(sum_segment const* segments, std::uint32_t count, std::uint32_t tiles, double* partials) {
  constexpr std::size_t packs = square_packs<T, gpu_lanes>;
  // two buffers alternate, so lanes synchronise once per tile
  __shared__ double scratch[2][packs * gpu_lanes::lanes / 32];
  std::size_t at = 0;
  std::uint32_t turn = 0;
  for (std::uint64_t t = blockIdx.x; t < tiles; t += gridDim.x, turn ^= 1) {
    auto const tile = static_cast<std::uint32_t>(t);
    at = segment_from(segments, count, at, tile);
    auto const sums = square_lane<T, gpu_lanes>(segments[at], tile, threadIdx.x);
    double mine[packs];
    for (std::size_t u = 0; u < packs; ++u) mine[u] = sums[u];
    double const whole = block_sum_of_neighbours(mine, scratch[turn]);
    if (threadIdx.x == 0) partials[tile] = whole;
  }
}

/// Run by one block, since it reads little.
__global__ void __launch_bounds__(gpu_lanes::lanes)
    partials_kernel(double const* partials, std::uint64_t count, double* result) {
  constexpr std::uint32_t each = sums_by_turns / gpu_lanes::lanes;
  __shared__ double scratch[sums_by_turns / 32];
  double mine[each] = {};
#pragma unroll 4
  for (std::uint64_t first = threadIdx.x; first < count; first += sums_by_turns)
    for (std::uint32_t u = 0; u < each; ++u)
      if (first + u * gpu_lanes::lanes < count)
        mine[u] = gpu_lanes::sum(mine[u], partials[first + u * gpu_lanes::lanes]);
  double const whole = block_sum_of_neighbours(mine, scratch);
  if (threadIdx.x == 0) *result = whole;
}

/// Finds the largest magnitude of each block. Each lane takes some neighbouring values of one block.
template <class From>
__global__ void __launch_bounds__(gpu_lanes::lanes)
    fp8_largest_kernel(std::byte const* from, std::byte* to, fp8_block_list all) {
  auto* const largest = reinterpret_cast<unsigned*>(to);
  std::uint64_t const apart = std::uint64_t{gridDim.x} * gpu_lanes::lanes * fp8_together;
  for (std::uint64_t block = std::uint64_t{blockIdx.x} * gpu_lanes::lanes * fp8_together; block < all.count;
       block += apart) {
    std::uint64_t const at = block + threadIdx.x * fp8_together;
    std::uint32_t mine = 0;
    if (at < all.count) mine = fp8_largest<From, gpu_lanes>(from + at * sizeof(From), fp8_in_turn(all, at));
    if (all.block == 0) {  // the same for the whole warp
      for (int away = 1; away < 32; away *= 2) {
        auto const other = __shfl_xor_sync(0xffffffffu, mine, away);
        mine = other > mine ? other : mine;
      }
      if (threadIdx.x % 32 == 0) atomicMax(largest, mine);
    } else if (at < all.count) {
      atomicMax(largest + all.block_of(at), mine);
    }
  }
}

template <class From, cuda::fp8_format F>
__global__ void __launch_bounds__(gpu_lanes::lanes)
    fp8_pack_kernel(std::byte const* from, std::byte* to, fp8_block_list all) {
  auto const* const largest = reinterpret_cast<float const*>(to);
  auto* const bytes = to + all.first_byte();
  for (auto at = fp8_first(blockIdx.x, threadIdx.x); at < all.count; at += fp8_apart(gridDim.x))
    fp8_pack<From, F, gpu_lanes>(from + at * sizeof(From), bytes + at, fp8_in_turn(all, at),
                                 largest[all.block_of(at)]);
}

template <class To, cuda::fp8_format F>
__global__ void __launch_bounds__(gpu_lanes::lanes)
    fp8_unpack_kernel(std::byte const* from, std::byte* to, fp8_block_list all) {
  auto const* const largest = reinterpret_cast<float const*>(from);
  auto const* const bytes = from + all.first_byte();
  for (auto at = fp8_first(blockIdx.x, threadIdx.x); at < all.count; at += fp8_apart(gridDim.x))
    fp8_unpack<To, F, gpu_lanes>(bytes + at, to + at * sizeof(To), fp8_in_turn(all, at),
                                 largest[all.block_of(at)]);
}

/// Run by one lane.
__global__ void update_kernel(double const* squares, update_options const* options, device_update* result) {
  auto const o = *options;
  *result = update_of(gpu_lanes::product(magnitude(o.factor), gpu_lanes::square_root(*squares)), o);
}

void launch_sums(cudaStream_t stream, sum_segment const* segments, sum_run const& run,
                 accumulate_options const& options, std::uint32_t processors) {
  if (run.tiles == 0) return;
  auto const count = static_cast<std::uint32_t>(run.segments);
  std::uint32_t const blocks = (std::min)(run.tiles, blocks_at_once * processors);
  auto const launch = [&]<class From, class To, class Operation>(From, To, Operation) {
    accumulate_kernel<From, To, Operation><<<blocks, gpu_lanes::lanes, 0, stream>>>(
        segments + run.first_segment, count, run.tiles, static_cast<common_sum_t<From, To>>(options.factor),
        options.device_factor, options.nonfinite);
  };
  dispatch_floating_type(run.from, [&](auto from) {
    dispatch_floating_type(run.to, [&](auto to) {
      if (options.target == accumulate_options::target::added_to)
        launch(from, to, adding{});
      else
        launch(from, to, overwriting{});
    });
  });
}

/// Launches a reduction with space for `Room` addresses.
template <std::size_t Room>
void launch_reduction(cudaStream_t stream, std::span<region const> regions, reduce_op op,
                      std::uint32_t processors, std::optional<std::uint32_t> only) {
  auto const count = static_cast<std::uint32_t>(regions.size());
  region_addresses<Room> all{.count = regions[0].count,
                             .regions = count,
                             .aligned = 1,
                             .first_stored = only.value_or(0),
                             .end_stored = only ? *only + 1 : count,
                             .at = {}};
  for (std::size_t r = 0; r < regions.size(); ++r) {
    all.at[r] = static_cast<std::byte*>(regions[r].data);
    if (reinterpret_cast<std::uintptr_t>(all.at[r]) % 16 != 0) all.aligned = 0;
  }
  std::uint64_t const most_blocks = std::uint64_t{blocks_at_once} * processors;
  auto const blocks = static_cast<std::uint32_t>((std::min)(all.count / 1024 + 1, most_blocks));
  dispatch_element_type(regions[0].type, [&](auto zero) {
    using T = decltype(zero);
    if (op == reduce_op::sum)
      reduce_kernel<T, reduce_op::sum, Room><<<blocks, gpu_lanes::lanes, 0, stream>>>(all);
    else
      reduce_kernel<T, reduce_op::max, Room><<<blocks, gpu_lanes::lanes, 0, stream>>>(all);
  });
}

void launch_sum_in_order(cudaStream_t stream, std::span<region const> regions, reduce_op op,
                         std::uint32_t processors, std::optional<std::uint32_t> only) {
  expects(regions.size() <= most_reduced_regions,
          "launch_sum_in_order: at most most_reduced_regions regions");
  if (regions.empty() || regions[0].count == 0) return;
  expects(!only || *only < regions.size(), "launch_sum_in_order: only is one of the regions");
  if (regions.size() <= 2)
    launch_reduction<2>(stream, regions, op, processors, only);
  else
    launch_reduction<most_reduced_regions>(stream, regions, op, processors, only);
}

void launch_squares(cudaStream_t stream, sum_segment const* segments, sum_run const& run, double* partials,
                    std::uint32_t processors) {
  if (run.tiles == 0) return;
  std::uint32_t const blocks = (std::min)(run.tiles, square_blocks_at_once * processors);
  dispatch_floating_type(run.from, [&](auto zero) {
    squares_kernel<decltype(zero)><<<blocks, gpu_lanes::lanes, 0, stream>>>(
        segments + run.first_segment, static_cast<std::uint32_t>(run.segments), run.tiles, partials);
  });
}

void launch_sum_of_partials(cudaStream_t stream, double const* partials, std::uint64_t count,
                            double* result) {
  partials_kernel<<<1, gpu_lanes::lanes, 0, stream>>>(partials, count, result);
}

/// Calls `f(type, format)` with objects of these types.
template <class F>
void dispatch_fp8(element_type type, cuda::fp8_format format, F f) {
  auto const with = [&]<class T>(T x) {
    if (format == cuda::fp8_format::e4m3)
      f(x, std::integral_constant<cuda::fp8_format, cuda::fp8_format::e4m3>());
    else
      f(x, std::integral_constant<cuda::fp8_format, cuda::fp8_format::e5m2>());
  };
  if (type == element_type::f32) with(float{});
  if (type == element_type::f16) with(float16_bits{});
  if (type == element_type::bf16) with(bfloat16_bits{});
}

inline std::uint32_t fp8_grid(fp8_block_list const& all, std::uint32_t processors) {
  std::uint64_t const each = gpu_lanes::lanes * fp8_together, most = std::uint64_t{8} * processors;
  return static_cast<std::uint32_t>((std::min)((all.count + each - 1) / each, most));
}

void launch_fp8_pack(cudaStream_t stream, region const& from, void* to, fp8_block_list const& all,
                     cuda::fp8_format format, std::uint32_t processors) {
  auto const blocks = fp8_grid(all, processors);
  auto const* const values = static_cast<std::byte const*>(from.data);
  auto* const packed = static_cast<std::byte*>(to);
  dispatch_fp8(from.type, format, [&]<class T, class Format>(T, Format) {
    fp8_largest_kernel<T><<<blocks, gpu_lanes::lanes, 0, stream>>>(values, packed, all);
    fp8_pack_kernel<T, Format::value><<<blocks, gpu_lanes::lanes, 0, stream>>>(values, packed, all);
  });
}

void launch_fp8_unpack(cudaStream_t stream, void const* from, region const& to, fp8_block_list const& all,
                       cuda::fp8_format format, std::uint32_t processors) {
  auto const blocks = fp8_grid(all, processors);
  dispatch_fp8(to.type, format, [&]<class T, class Format>(T, Format) {
    fp8_unpack_kernel<T, Format::value><<<blocks, gpu_lanes::lanes, 0, stream>>>(
        static_cast<std::byte const*>(from), static_cast<std::byte*>(to.data), all);
  });
}

void launch_update(cudaStream_t stream, double const* squares, update_options const* options,
                   device_update* result) {
  update_kernel<<<1, 1, 0, stream>>>(squares, options, result);
}

}  // namespace cleave::detail
