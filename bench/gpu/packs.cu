// SPDX-License-Identifier: MIT
// The kernel of sums, with all sizes of packs.
#include "packs.hpp"

#include <algorithm>
#include <type_traits>

#include "cleave/cuda/detail/device_access.cuh"

namespace bench {

namespace {

using namespace cleave::detail;

/// 96 bytes in flight for each lane, with all of them.
template <pack_of Which>
struct lanes_of : gpu_lanes {
  template <class From, class To>
  static constexpr std::size_t pack_elements =
      16 / (Which == pack_of::longer ? (std::max)(sizeof(From), sizeof(To))
                                     : (std::min)(sizeof(From), sizeof(To)));
  template <class From, class To, class Operation>
  static constexpr std::size_t packs_at_once = Which == pack_of::longer ? 4 : 2;
};
template <>
struct lanes_of<pack_of::longer_wide> : wide_gpu_lanes {};

template <pack_of Which>
__global__ void __launch_bounds__(gpu_lanes::lanes, 4)
    add_kernel(sum_segment const* segments, std::uint32_t count, std::uint32_t tiles) {
  accumulate_block<bfloat16_bits, float, adding, lanes_of<Which>>(segments, count, tiles, 1.f, blockIdx.x,
                                                                  gridDim.x, threadIdx.x);
}

}  // namespace

bool add_in_packs(pack_of which, cudaStream_t s, sum_segment const* segments, sum_run const& run,
                  std::uint32_t processors) {
  auto const count = static_cast<std::uint32_t>(run.segments);
  std::uint32_t const blocks = (std::min)(run.tiles, 4 * processors);
  auto const launch = [&]<pack_of Which>(std::integral_constant<pack_of, Which>) {
    add_kernel<Which><<<blocks, gpu_lanes::lanes, 0, s>>>(segments, count, run.tiles);
  };
  if (which == pack_of::longer) launch(std::integral_constant<pack_of, pack_of::longer>());
  if (which == pack_of::shorter) launch(std::integral_constant<pack_of, pack_of::shorter>());
  if (which == pack_of::longer_wide) launch(std::integral_constant<pack_of, pack_of::longer_wide>());
  return true;
}

}  // namespace bench
